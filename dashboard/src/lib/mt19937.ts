// SPDX-License-Identifier: Apache-2.0
// numpy.random.RandomState(seed), as far as standard_normal needs it: the Mersenne Twister and the
// polar method. The same seed gives the same numbers in Python.
const N = 624,
  M = 397;

export class RandomState {
  private readonly words = new Uint32Array(N);
  private at = N;
  private spare: number | null = null;

  constructor(seed: number) {
    this.words[0] = seed;
    for (let i = 1; i < N; i++) {
      const before = this.words[i - 1] ^ (this.words[i - 1] >>> 30);
      this.words[i] = Math.imul(1812433253, before) + i;
    }
  }

  private refill(): void {
    for (let i = 0; i < N; i++) {
      const mixed = (this.words[i] & 0x80000000) | (this.words[(i + 1) % N] & 0x7fffffff);
      this.words[i] = this.words[(i + M) % N] ^ (mixed >>> 1) ^ (mixed & 1 ? 0x9908b0df : 0);
    }
    this.at = 0;
  }

  private word(): number {
    if (this.at === N) this.refill();
    let y = this.words[this.at++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  /** From 0 to 1, with 53 random bits. */
  private uniform(): number {
    const high = this.word() >>> 5,
      low = this.word() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  }

  private normal(): number {
    if (this.spare !== null) {
      const kept = this.spare;
      this.spare = null;
      return kept;
    }
    let x = 0,
      y = 0,
      square = 0;
    do {
      x = 2 * this.uniform() - 1;
      y = 2 * this.uniform() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square === 0);
    const factor = Math.sqrt((-2 * Math.log(square)) / square);
    this.spare = factor * x;
    return factor * y;
  }

  standardNormal(count: number): Float32Array {
    return Float32Array.from({ length: count }, () => this.normal());
  }
}
