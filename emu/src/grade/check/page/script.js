"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const list = by("list"), find = by("find"), which = by("which"), count = by("count");
  const functions = Array.from(list.querySelectorAll(":scope > .fn"), (node, order) => ({
    node, order,
    name: node.querySelector(".name").textContent,
    size: Number(node.dataset.size),
    fresh: Number(node.dataset.new),
    wrong: node.dataset.wrong.split(" ").map(Number),
  }));
  const wanted = (f, what) => {
    if (what === "all") return true;
    if (what === "new") return f.fresh > 0;
    if (what === "wrong") return f.wrong.some((n) => n > 0);
    return f.wrong[Number(what)] > 0;
  };
  const filter = () => {
    const text = find.value.toLowerCase();
    let shown = 0;
    for (const f of functions) {
      const fits = wanted(f, which.value) ? f.name.toLowerCase().includes(text) : false;
      f.node.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    count.textContent = shown + " of " + functions.length;
  };
  // The first click puts the largest on top, a second one restores the order.
  const sort = (button) => {
    const again = button.hasAttribute("data-sorted");
    for (const other of list.querySelectorAll("[data-sorted]")) other.removeAttribute("data-sorted");
    const key = button.dataset.sort;
    const value = (f) => (key === "size" ? f.size : f.wrong[Number(key)]);
    let order = (a, b) => value(b) - value(a) || a.order - b.order;
    if (key === "name") order = (a, b) => a.name.localeCompare(b.name) || a.order - b.order;
    if (again) order = (a, b) => a.order - b.order;
    else button.setAttribute("data-sorted", "");
    functions.sort(order);
    list.append(...functions.map((f) => f.node));
  };
  for (const button of list.querySelectorAll("button")) {
    button.disabled = false;
    button.addEventListener("click", () => sort(button));
  }
  by("controls").hidden = false;
  by("controls").addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", filter);
  which.addEventListener("change", filter);
  if (!functions.some((f) => wanted(f, "wrong"))) which.value = "all";
  filter();
})();
