// cpp-throw: C++ exceptions, virtual calls and containers.
//
// An exception leaves recursive functions of which every frame has an object
// to destroy; exceptions are caught by base class, thrown again, and turned
// into others on the way. Virtual functions are called through a vector of
// pointers, std::sort and std::map with function objects.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define PLAIN __attribute__((noipa))

namespace {

int alive;

// Counts what is constructed and destroyed.
struct Guard {
	Guard() { ++alive; }
	~Guard() { --alive; }
	Guard(const Guard &) = delete;
};

struct TooDeep : std::runtime_error {
	int depth;
	explicit TooDeep(int d)
		: std::runtime_error("too deep: " + std::to_string(d)), depth(d) {}
};

// ---- exceptions ----

PLAIN int descend(int depth, int limit)
{
	Guard guard;

	if (depth == limit)
		throw TooDeep(depth);
	return descend(depth + 1, limit) + 1;
}

// Every tenth frame catches the exception and throws it again.
PLAIN int descend_catching(int depth, int limit)
{
	Guard guard;

	if (depth == limit)
		throw TooDeep(depth);
	if (depth % 10)
		return descend_catching(depth + 1, limit) + 1;
	try {
		return descend_catching(depth + 1, limit) + 1;
	} catch (TooDeep &e) {
		++e.depth;
		throw;
	}
}

PLAIN void translate(int limit)
{
	try {
		descend(0, limit);
	} catch (const TooDeep &e) {
		throw std::logic_error(std::string("translated, was ") + e.what());
	}
}

PLAIN void exceptions()
{
	for (int limit : {1, 10, 100}) {
		try {
			descend(0, limit);
		} catch (const std::exception &e) {
			std::printf("caught \"%s\", %d alive\n", e.what(), alive);
		}
	}
	try {
		descend_catching(0, 100);
	} catch (const TooDeep &e) {
		std::printf("thrown again %d times, %d alive\n", e.depth - 100, alive);
	}
	try {
		translate(5);
	} catch (const TooDeep &) {
		std::puts("not this one");
	} catch (const std::logic_error &e) {
		std::printf("caught \"%s\", %d alive\n", e.what(), alive);
	}
	try {
		std::vector<int> v(3);
		v.at(3) = 1;
	} catch (const std::out_of_range &) {
		std::puts("caught out_of_range");
	}
	int caught = 0;
	for (int i = 0; i < 150; i++) {
		try {
			descend(0, i % 16);
		} catch (...) {
			++caught;
		}
	}
	std::printf("caught %d more, %d alive\n", caught, alive);
}

// ---- virtual functions ----

struct Shape {
	virtual ~Shape() = default;
	virtual long area() const = 0;
	virtual const char *name() const = 0;
};

struct Square : Shape {
	long side;
	explicit Square(long s) : side(s) {}
	long area() const override { return side * side; }
	const char *name() const override { return "square"; }
};

struct Rectangle : Square {
	long other;
	Rectangle(long a, long b) : Square(a), other(b) {}
	long area() const override { return side * other; }
	const char *name() const override { return "rectangle"; }
};

struct Twice : Shape {
	std::unique_ptr<Shape> shape;
	explicit Twice(std::unique_ptr<Shape> s) : shape(std::move(s)) {}
	long area() const override { return 2 * shape->area(); }
	const char *name() const override { return "twice"; }
};

PLAIN void virtual_calls()
{
	std::vector<std::unique_ptr<Shape>> shapes;
	std::map<std::string, long> areas;

	for (int i = 1; i <= 300; i++) {
		std::unique_ptr<Shape> s = std::make_unique<Square>(i);
		if (i % 3 == 1)
			s = std::make_unique<Rectangle>(i, i + 1);
		if (i % 3 == 2)
			s = std::make_unique<Twice>(std::move(s));
		shapes.push_back(std::move(s));
	}
	std::sort(shapes.begin(), shapes.end(),
		  [](const auto &a, const auto &b) { return a->area() < b->area(); });
	for (const auto &s : shapes)
		areas[s->name()] += s->area();
	for (const auto &[name, area] : areas)
		std::printf("%s: area %ld\n", name.c_str(), area);
	std::printf("largest is a %s\n", shapes.back()->name());
}

// ---- function objects ----

PLAIN void functions()
{
	std::vector<std::function<long(long)>> steps;

	for (long i = 0; i < 20; i++)
		steps.push_back([i](long x) { return (x * 31 + i) % 1000003; });
	long x = 1;
	for (int i = 0; i < 1000; i++)
		for (const auto &step : steps)
			x = step(x);
	std::printf("functions: %ld\n", x);
}

}

int main()
{
	exceptions();
	virtual_calls();
	functions();
	return alive;
}
