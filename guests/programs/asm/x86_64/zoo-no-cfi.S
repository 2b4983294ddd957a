/*
 * zoo-no-cfi: functions without CFI, and words on the stack that look like
 * return addresses.
 *
 * There are three bets that an unwinder can make on an innermost frame that no
 * table describes, and each function punishes some:
 *
 *   decoys      its locals are addresses of code: whoever scans the stack, or
 *               takes the word at %rsp for the return address, invents a frame
 *   odd_leaf    pushed nothing: the word at %rsp is the return address
 *   odd_record  keeps a frame record: %rbp is right
 *
 * round has CFI and a frame record.
 */
#include "zoo.h"

func round
	enter_frame
	call	decoys
	call	odd_leaf
	call	odd_record
	xor	%eax, %eax
	leave_frame
	ret
end round

bare decoys
	sub	$40, %rsp
	lea	decoys(%rip), %rax
	mov	%rax, 32(%rsp)
	lea	1f(%rip), %rax
	mov	%rax, 16(%rsp)
	lea	never+5(%rip), %rax
	mov	%rax, (%rsp)
1:	nop
	nop
	add	$40, %rsp
	ret
bare_end decoys

bare odd_leaf
	nop
	nop
	ret
bare_end odd_leaf

bare odd_record
	push	%rbp
	mov	%rsp, %rbp
	nop
	nop
	pop	%rbp
	ret
bare_end odd_record

/* where a decoy points to: after a call */
func never
	call	odd_leaf
	hlt
end never
