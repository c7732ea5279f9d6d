import fc from 'fast-check';
import type { CrowdKind } from './crowd.ts';
import { editSteps, type Step } from './edit.ts';
import { ALL_FEATURES, type Scenario, scenario } from './scenario.ts';

/** A scenario, and the steps that lead on from it. */
export interface History {
  readonly from: Scenario;
  readonly steps: readonly Step[];
}

/** Crowds of so many rules, each with up to twelve steps. */
export function histories(kind: CrowdKind, sizes: readonly number[] = [10, 40, 120]): fc.Arbitrary<History> {
  const drawn = (rules: number) =>
    scenario({ size: 8, flows: 0, features: ALL_FEATURES, crowd: { rules, kind } });
  const all = fc.constantFrom(...sizes).chain((rules) =>
    fc
      .record({
        from: drawn(rules),
        other: drawn(30),
        seed: fc.nat(),
        steps: fc.integer({ min: 1, max: 12 }),
      })
      .map(({ from, other, seed, steps }) => ({ from, steps: editSteps(from, other, { steps, seed }) })),
  );
  // Shrinking one would take minutes, and give one that is as long.
  return fc.noShrink(all);
}
