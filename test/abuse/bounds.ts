import assert from 'node:assert/strict';
import { SERVER_LIMITS } from '../../controller/publish/server-limits.ts';
import type { Compared } from './churn.ts';

const MiB = 1 << 20;
const FACTOR = 5;
/** Milliseconds: a shorter worst time without attacks is luck. */
const LEAST = 100;

/**
 * The worst time under attack is at most five times the worst without; or, where other programs had
 * the processors meanwhile, five times what as much work took elsewhere.
 */
export function assertInTime({ quiet, attacked, elsewhere }: Compared): void {
  for (const end of ['rendered', 'inKernel'] as const) {
    const [without, under] = [Math.max(...quiet[end]), Math.max(...attacked[end])];
    const found = `${end}: ${under.toFixed()} ms under attack (${attacked[end].length} changes), ${without.toFixed()} ms without (${quiet[end].length}), as much work elsewhere ${elsewhere.toFixed()} ms`;
    assert.ok(under <= FACTOR * Math.max(without, LEAST, elsewhere), found);
  }
}

/**
 * The bound of docs/cluster.md: 64 MiB for bodies, 0.5 GiB for the process that checks them, 64 KiB
 * for each connection.
 *
 * @param grown bytes more than before all attacks
 */
export function assertMemory(grown: number): void {
  const bound = (64 + 512) * MiB + SERVER_LIMITS.connections * 64 * 1024;
  assert.ok(grown < bound, `${Math.round(grown / MiB)} MiB more, and at most ${bound / MiB} are allowed`);
}
