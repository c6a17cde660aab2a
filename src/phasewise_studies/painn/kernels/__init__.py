"""Triton kernels of PaiNN: neighbour lists, messages forward and adjoint, forces, dense layers. Importing this imports nothing.

What the engine takes of them: fused_messages.FusedMessages, fused_atoms.fused_parts; tuning.tune_launches, tune_tiles.

A atoms, E places for edges, B systems, F features, K radial functions, P parts (F / RowLaunch.summed). Every function
answers in plain PyTorch where `phasewise.kit.kernels.has_kernel` says no; the plain form stands beside each kernel as `..._plain`. No atomics on
floats, no waiting for the device, no sizes taken from it: every step can stand in a CUDA graph and repeats its bits. A grid has one
program at least (`max(1, ...)`): one of none cannot be launched.

Lists (positions float64, r float32; an `Edges` of exactly `capacity` places, `overflow` counts what found no place)
    molecules.find_in_molecules(atoms, cutoff, capacity) -> Edges                     batches of molecules; rows ascend in j
    boxes.plan_box(cell (3, 3), cutoff, atoms) -> Box                                 on the host, once
    cells.find_in_box(atoms, box, capacity) -> (Edges, shift (E,) int32, packed)      one periodic box, also thinner than the cutoff
    prune.prune(atoms, wide, shift | None, cutoff, capacity) -> Edges                 list with skin -> list of now
    lists.find_plain(atoms, cutoff, capacity) -> Edges                                brute force in PyTorch

What an edge gives to all layers
    radial.edge_records(r, row_ptr, sizes, slopes=True) -> (record (E, K + 4), slope (E, K + 2))
    table.build_table(filters, sizes, knots) -> (L, 2 knots, 3F);  table.table_records(r, row_ptr, sizes, knots) -> ((E, 8), (E, 6))

Messages (what a loop over a row reads: row_reads.py; `filters` is one layer of pack_filter or of build_table; launches: FORWARD_LAUNCHES, ADJOINT_LAUNCHES, choose_launch)
    message.pack_filter(weight (L * 3F, K), bias (L * 3F,), layers) -> (L, K + 1, 3F)
    message.message(q (A, F), mu (A, 3, F) | None, x (A, 3F), record, row_ptr, j, filters, launch) -> (q, mu), new tensors
    adjoint.new_pulls(E, F, A, device, launch) -> (P, E, 3)
    adjoint.message_adjoint(qbar, mubar, mu | None, x, record, slope, row_ptr, j, filters, pulls, add=, launch=)
        -> (xbar (A, 3F), mubar (A, 3, F)), None for the first layer; dE/dr of the edges goes into `pulls`
The same on tensor cores, from capability 8 on, for as many numbers as stay in registers (tiles.py; FORWARD_TILES, ADJOINT_TILES)
    split.split_edges(r, row_ptr, sizes, slopes=True) -> SplitRecords;  split.split_filters(filters (L, K + 1, 3F)) -> SplitFilter: as halves
    message_tiles.message_by_tiles(q, mu | None, x, split, row_ptr, j, launch) -> (q, mu)
    adjoint_tiles.adjoint_by_tiles(qbar, mubar, mu | None, x, split, row_ptr, j, pulls, add=, launch=)

Forces and energies (float64, a fixed order of sums)
    forces.gather_forces(pulls, edges, energies (B,), system, strain=False) -> (forces (A, 3), strain gradient of each atom (A, 3, 3) | None)
    forces.sum_energies(energy (A,), atomref, atoms, overflow) -> (B,), NaN where the list overflowed or a position is not finite
    forces.sum_systems(values (A, ...), start) -> (B, ...)

Atoms (precision "tf32x3" by default, or "tf32", "ieee"; launches: ..._LAUNCHES, choose_tile; a weight may be in two parts)
    dense.split(weight (N, K)) -> (2, N, K): three TF32 products whatever `precision` says; split(weight.T).mT for the adjoint
    dense.linear(x, weight, bias, second=, transpose=, silu=, slope_at=, residual=, precision=) -> (y, z | None)
    update.mix(mu, weight (2F, F), epsilon) -> (VU (A, 3, 2F), norm (A, F), dot (A, F))
    update.gate(h, weight (3F, F), bias, q, mu | None, VU, dot) -> (q, mu | None, gates (A, 2F));  mu None in the last layer
    update_adjoint.ungate(qbar, mubar | None, VU, dot, z, weight) -> zbar (A, F)
    update_adjoint.unmix(qbar, nbar, mubar | None, gates, VU, norm, weight) -> mubar (A, 3, F)
    readout.read_out(z (A, H), weight (1, H), bias (1,)) -> (energy (A,), zbar (A, H)): both in one kernel

One step of L = 3 layers, pruned, is 3 (list; 7 nodes for a box) + 1 (records) + 16 (forward) + 3 (readout) + 16 (adjoint)
+ 2 (forces, sums) launches.
"""
