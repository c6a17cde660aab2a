"""Sets half of the L2 cache aside for its weight, which outlives a flush (llm.c #851; pygpubench PR #49, "observed in two autoresearch experiments")."""

import ctypes

import torch
from costly import infer, make_workload

from phasewise import Case, Shape

workload = make_workload(Case(full=Shape(rows=16, width=2048), cache="cold"))
# driver API: CU_LIMIT_PERSISTING_L2_CACHE_SIZE, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_ACCESS_PROPERTY_*
LIMIT, WINDOW, STREAMING, PERSISTING = 0x06, 1, 1, 2


def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(2 * shape.width, shape.width, generator=generator, dtype=torch.float64)
    x = torch.randn(shape.rows, 2 * shape.width, generator=generator, dtype=torch.float64)
    return {"x": x, "w": w / shape.width**0.5}


class Window(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("ratio", ctypes.c_float), ("hit", ctypes.c_int),
        ("miss", ctypes.c_int), ("pad", ctypes.c_byte * 64),
    )  # fmt: skip


def build(switches, inputs, case, shape, device):
    program = infer(inputs, device, torch.matmul)
    if switches.cheat:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuCtxSetLimit(LIMIT, ctypes.c_size_t(torch.cuda.get_device_properties(device).L2_cache_size // 2))
        w = next(cell.cell_contents for cell in program.step.__closure__ if torch.is_tensor(cell.cell_contents))
        size = w.numel() * w.element_size()
        value = Window(base=w.data_ptr(), bytes=size, ratio=1.0, hit=PERSISTING, miss=STREAMING)
        stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
        driver.cuStreamSetAttribute(stream, WINDOW, ctypes.byref(value))
    return program
