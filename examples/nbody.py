"""One step of n bodies that attract one another. A body is a record; tiles of bodies are staged in local memory."""

import numpy as np

import pydp

GROUP = 64
SOFT, DT = np.float32(1e-2), np.float32(1e-3)
Body = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("mass", "f4"), ("vx", "f4"), ("vy", "f4"), ("vz", "f4")])


@pydp.vector
def step(idx, moved, bodies):
    near = pydp.local_field(Body, GROUP)
    me = bodies[idx.group[0]][idx.local[0]]
    ax, ay, az = 0.0, 0.0, 0.0
    for t in range(bodies.extent[0]):
        near[idx.local[0]] = bodies[t][idx.local[0]]  # zeros beyond the last body: no mass
        pydp.group_barrier()
        for k in range(GROUP):
            other = near[k]
            dx, dy, dz = other.x - me.x, other.y - me.y, other.z - me.z
            r2 = dx * dx + dy * dy + dz * dz + SOFT
            pull = other.mass / (r2 * np.sqrt(r2))
            ax, ay, az = ax + pull * dx, ay + pull * dy, az + pull * dz
        pydp.group_barrier()
    me.vx, me.vy, me.vz = me.vx + ax * DT, me.vy + ay * DT, me.vz + az * DT
    me.x, me.y, me.z = me.x + me.vx * DT, me.y + me.vy * DT, me.z + me.vz * DT
    moved[idx] = me


def main(device=None, n=300):
    rng = np.random.default_rng(0)
    bodies = np.zeros(n, Body)
    for name in Body.names:
        bodies[name] = rng.random(n, dtype=np.float32)
    moved = np.empty_like(bodies)
    pydp.forall(n, step, moved, pydp.read_only(pydp.tile(bodies, GROUP)), group=GROUP, device=device)
    place = np.stack([bodies[c] for c in "xyz"], axis=1).astype(np.float64)
    apart = place[None] - place[:, None]
    pull = bodies["mass"] / ((apart**2).sum(axis=2) + SOFT) ** 1.5
    speed = np.stack([bodies["v" + c] for c in "xyz"], axis=1) + (pull[:, :, None] * apart).sum(axis=1) * DT
    return np.stack([moved[c] for c in "xyz"], axis=1), place + speed * DT


if __name__ == "__main__":
    result, expected = main()
    print("largest difference to NumPy:", np.abs(result - expected).max())
