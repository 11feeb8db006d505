"""The output of compilers, shortened: ptxas 13.0, and clang 19 for gfx90a, gfx906 and sm_90."""

from __future__ import annotations

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'tiny' for 'sm_90'
ptxas info    : Function properties for tiny
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 256 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 18.690 ms
ptxas info    : Compiling entry function 'matmul_simt' for 'sm_90'
ptxas info    : Function properties for _Z7helperv
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for matmul_simt
    608 bytes stack frame, 616 bytes spill stores, 624 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 608 bytes cumulative stack size, 34816 bytes smem
ptxas info    : Compile time = 388.511 ms
"""

ASSEMBLY = """\
	.amdhsa_kernel tiny
		.amdhsa_group_segment_fixed_size 256
		.amdhsa_next_free_vgpr 5
	.end_amdhsa_kernel
	.text
                                        ; -- End function
	.section	.AMDGPU.csdata,"",@progbits
; Kernel info:
; codeLenInByte = 164
; NumSgprs: 10
; NumVgprs: 5
; NumAgprs: 3
; TotalNumVgprs: 11
; ScratchSize: 0
; LDSByteSize: 256 bytes/workgroup (compile time only)
; NumVGPRsForWavesPerEU: 5
; Occupancy: 8
	.amdhsa_kernel matmul_simt
	.end_amdhsa_kernel
; Kernel info:
; codeLenInByte = 25104
; NumSgprs: 100
; NumVgprs: 256
; ScratchSize: 112
; LDSByteSize: 17408 bytes/workgroup (compile time only)
; Occupancy: 1
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .address_space:  global
        .name:           x
        .offset:         0
    .group_segment_fixed_size: 256
    .name:           tiny
    .private_segment_fixed_size: 0
    .sgpr_spill_count: 0
    .symbol:         tiny.kd
    .vgpr_spill_count: 2
    .wavefront_size: 64
  - .args:           []
    .name:           matmul_simt
    .sgpr_spill_count: 0
    .vgpr_spill_count: 27
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx906
...
	.end_amdgpu_metadata
"""

PTX = """\
.version 7.8
.target sm_90, texmode_independent
.address_size 64

.func  (.param .b32 func_retval0) _Z4pairif
(
	.param .b32 _Z4pairif_param_0
)
;

.entry tiny(
	.param .u64 .ptr .global .align 4 tiny_param_0,
	.param .u64 .ptr .global .align 4 tiny_param_1,
	.param .u32 tiny_param_2
)
{
	.local .align 16 .b8 	__local_depot0[32];
	.reg .pred 	%p<3>;
	.reg .b32 	%r<6>;
	.reg .f32 	%f<11>;
	.reg .b64 	%rd<14>;
	// demoted variable
	.shared .align 4 .b8 tiny_$_s[256];
	ld.param.u32 	%r5, [tiny_param_2];
	ld.param.u64 	%rd5, [tiny_param_1];
	mov.u32 	%r1, %tid.x;
	setp.lt.s32 	%p1, %r5, 1;
	mov.f32 	%f10, 0f00000000;
	mul.wide.u32 	%rd12, %r1, 4;
	@%p1 bra 	$L__BB0_3;
	ld.param.u64 	%rd4, [tiny_param_0];
	add.s64 	%rd13, %rd4, %rd12;
$L__BB0_2:
	.pragma "nounroll";
	ld.global.v2.f32 	{%f6, %f7}, [%rd13];
	add.rn.f32 	%f10, %f10, %f6;
	add.rn.f32 	%f10, %f10, %f7;
	add.s64 	%rd13, %rd13, 256;
	add.s32 	%r5, %r5, -1;
	setp.eq.s32 	%p2, %r5, 0;
	@%p2 bra 	$L__BB0_3;
	bra.uni 	$L__BB0_2;
$L__BB0_3:
	mov.u64 	%rd8, tiny_$_s;
	add.s64 	%rd9, %rd8, %rd12;
	st.shared.f32 	[%rd9], %f10;
	bar.sync 	0;
	sub.s64 	%rd10, %rd8, %rd12;
	ld.shared.f32 	%f8, [%rd10+252];
	add.s64 	%rd11, %rd5, %rd12;
	st.global.f32 	[%rd11], %f8;
	ret;

}
"""
