import assert from 'node:assert/strict';
import { SERVER_LIMITS } from '../../controller/publish/server.ts';
import { ADMISSION_LIMITS } from '../../controller/webhook/admission-process.ts';
import type { Times } from './churn.ts';

const MiB = 1 << 20;
const FACTOR = 5;
/**
 * Milliseconds that one change in a hundred takes on a machine with two busy cores, whatever the
 * controller does: a shorter worst time without attacks is luck.
 */
const LEAST = 100;

/** The worst time under attack is at most five times the worst without. */
export function assertInTime(quiet: Times, attacked: Times): void {
  for (const end of ['rendered', 'inKernel'] as const) {
    const [without, under] = [Math.max(...quiet[end]), Math.max(...attacked[end])];
    const found = `${end}: ${under.toFixed()} ms under attack (${attacked[end].length} changes), ${without.toFixed()} ms without (${quiet[end].length})`;
    assert.ok(under <= FACTOR * Math.max(without, LEAST), found);
  }
}

/** @param grown bytes more than before all attacks */
export function assertMemory(grown: number): void {
  const connections = SERVER_LIMITS.connections * 2 * 64 * 1024;
  const bound = 64 * MiB + ADMISSION_LIMITS.heap * MiB + 2 * 24 * MiB + connections;
  assert.ok(grown < bound, `${Math.round(grown / MiB)} MiB more, and at most ${bound / MiB} are allowed`);
}
