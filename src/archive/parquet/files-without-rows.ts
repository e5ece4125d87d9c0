import { inflateRawSync } from 'node:zlib';

/**
 * The files without rows of the datasets that Arrow and parquet-wasm encode, deflated, as Base64. To load both for a
 * few bytes that are always the same takes 90 ms of CPU time, and most first publishes have no other use for them.
 * `test/archive/empty-files.test.ts` compares these with the encoders, and prints what to put here.
 */
const packedFiles = {
  markets:
    'rVVNb+JWFLVQZjrJoJFaiZGjZptVFuYj6YSqXVzbYCDBwRRs7A2yn1+MweAUG0z4Df2J/SOVZlHdZ0OAJHRTC0Huxzn3vuP7bjrQLRVy599/buTt+TxMhhEZ0aldKHKF/CXH54k9C2c+sYOh715y9xcch4Ec/zF6njphsO8KF3NCM9cNx39Y+jSJCrnCx/vf0HPCnwR+FBdyaf6JH9PpLsEnYsfUC+fPG+fZZY4/I+Hs0XfpjFCuwF3m+FM/Gtok9pc0Q/25oFHsh7MN6gSTSBBGNBra8eVP93/9eIGBLPR5TqMwWFL3MIjVfggXMQmnFFM5/uzRn0fxMKJ0dkDD8aeB/VYIO/pAV/Hc3j3Zl4x2uCdRlryks3jjYQekKxIsInZApkAUz/0JHQZhkjo+Z46R743SM+Xp6omSmLpDOnNf9zNfBDTaLZpnnmE0sss3v+wFHillI+AuArr7Gk5jn0yGkb+m3FfuPH9+weeh230wfk3nhf/7i4BPJakDgAbpcweQgORBC12SBwBiFtE0kACakLo2vwAiJoEpagAVpLmDGoDYxJiCtprIABKBBMCBNoCkyQDyBDyAGGkamgQARbQltFVNBJBChFKkqqENGtrrrEMAMcLvh7QxQNIrQRBqLLQ5Sk1mtvLtVhBuIWsZACaYVLQNdT6oqE902gcAGRBfZ/Fkg6/LsHnEa4wzW7ECS6+uzfIosBp6ZLFycnIcL4VbfKNVchR9PaioodlrllQmH3hC5xheNhHPjpbh0ftHZy0IK9ZAe9OoNEq2qFKnIgiJt+FLqet6X0vSfGswSixDLVpG99EybiYsrTlGvRhpfUOktZltLZEPu81OhX831CKZBnNLr4a24YZw/z4+OMR7e/jIqRCAB4bvs1Nv8WZ7e6g7GeOtrP+x09DX9sAKWD0874Eeovaixxr1SpBaDNypvnBZkXX1db3+S71OD+uxUXMqetEsV2N8/05FfzbLfQDlP/BSD+P1rN8imeJUikR4PHzfcNfYgsDDqylt+VJqXe/K2fxG5kAtDipqYBnXWMQ8zieS9/lCjE/tQWvt1qtry9AXqJ+wfOc+Pcyv9u8TwaSlO+iOnXIpAHl89VqPkGxbafcEQbjdgMX0VYm6Xmtn89QKSLkauVN9MijXi9DoIR854JvsSIX+O7avMvuNeWfzYpZXS1LW14wXABadb0fnhWCc3R9x5Rr62lWCpcPo5Qnqc3BflZ37TjAuIbUSYL2xqwRltitEgLqHS+sa5ASYpFK2fxXWwZZPVjZNeSi2ma3ag/ujqEtnaj1Zir5g81gfC0fnUZS3+pvletEy3CWZpXL2OoIgrLxdPUCWve2ql9K2BEG4mgjH9yWbNwZSgqJlFGE7Sg3ryRq4bH+VWb339Z9gPDHR/XLfRLZX3tTvyP5ssn7SfXPjGK2lk05IP/v/1skomplt7ukHfe1l3jRMqW3jijpyptWFbagjp159stKk3zn+U+i6UWBP6Pl3/oLj/pcP988px3WgW/oX',
  orderbooks:
    'XVHdTtswGP2oCkJTboYUlEq9zbXXaQOExMVJSjNGqzXZoCo3KDRRKLgtawouaI/Ag/A8e6Lps52swori7+d85xzbQyQdt9H6881Jl8uFui4nt/ksdR1yHZ+8nfJ5drOQPvXbROQ2ffK2Vv5e//VjmwtkUM1ymuUVpuGTty3zp1yS+4Hjh+V0kpt49/djOl9NV8+0Ty2n1fYcJMmP0bER9d6agtfXOAAQw6xzQCEs8J1LYQEgsJ04RgicwZSqHcCYf1+Y4YCjvgIYCeCnGQTQVeJJiFM9VEmhq/P+oRDiCJYSgBZdZ6PeYxbJT3lsSYIxNB5HVrcwecB4TCpSrAsbjNlFZP1t8F/wkJrM5N0Vc0e/WH+8iQDONF8IDPQ9KNP63zdO9FGitcxmlyXn86EQYq0NDypkEKt66o77ivvBSzpKpC4OtL7W69bIxX0douD6ufZR34/1wNS9y4tYmSvJ7KP07Ht2lTEa2jzSc7Wf3ik2DxRvvGfwko8605vPjD05IW93kWWlTO/zlmwTvfvob4NoiKTzDw==',
} as const;

type ArrowDataset = keyof typeof packedFiles;

export const isArrowDataset = (dataset: string): dataset is ArrowDataset => Object.hasOwn(packedFiles, dataset);

/** Returns the file without rows of a dataset that Arrow encodes. */
export const unpackEmptyFile = (dataset: ArrowDataset): Uint8Array =>
  // Not a Buffer, because slices of a Buffer are not copies.
  new Uint8Array(inflateRawSync(Buffer.from(packedFiles[dataset], 'base64')));
