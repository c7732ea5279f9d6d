import assert from 'node:assert/strict';
import { type Flooded, type FloodTarget, passedDuring } from '../kernel/flood-tool.ts';

/**
 * Floods a port that must be closed throughout, and one that must be open: the action must let
 * nothing through to the first, and drop nothing of the second.
 */
export async function floodedDuring(
  topology: Flooded,
  targets: readonly [closed: FloodTarget, open: FloodTarget],
  action: () => Promise<void>,
): Promise<void> {
  const [closed, open] = await passedDuring(topology, targets, action);
  assert.ok(closed !== undefined && open !== undefined);
  assert.ok(closed.sent > 100 && open.sent > 100, `only ${closed.sent} and ${open.sent} packets`);
  assert.equal(closed.passed, 0, `leaked ${closed.passed} of ${closed.sent}`);
  assert.equal(open.passed, open.arrived, `dropped ${open.arrived - open.passed} of ${open.arrived}`);
}
