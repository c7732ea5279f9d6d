import fc from 'fast-check';
import { ALL_FEATURES, scenario } from '../generate/scenario.ts';
import { agree, type Seen } from './agree.ts';
import { check, flowCount, missingOf } from './runs.ts';

const SIZES = fc.constantFrom(1, 3, 8, 8, 20);

describe('agreement', function () {
  this.timeout(0);

  it('of oracle, explain and both rulesets on every verdict', function () {
    const seen: Seen = new Map();
    const scenarios = SIZES.chain((size) =>
      scenario({ size, flows: flowCount(100), features: ALL_FEATURES }),
    );
    check(this, 200, scenarios, (drawn) => void agree(drawn, seen), missingOf(seen, EXPECTED));
  });
});

const VERDICTS = ['Allow', 'Drop', 'Reject'];
const EXPECTED = [
  ...VERDICTS.flatMap((verdict) => ['explain', 'kernel'].map((by) => `${by} ${verdict} rule`)),
  ...['default', 'exempt', 'failsafe'].flatMap((reason) => [
    `explain Allow ${reason}`,
    `kernel Allow ${reason}`,
  ]),
  ...VERDICTS.map((verdict) => `NodePort ${verdict} rule`),
  'NodePort Allow exempt',
  ...['explain', 'kernel', 'NodePort'].map((by) => `${by} Drop spoofed`),
  'audited',
  ...['Allow failsafe', 'Allow rule', 'Drop rule'].map((what) => `untracked ${what}`),
  ...['Allow exempt', 'Allow rule', 'Drop rule'].map((what) => `local pods ${what}`),
  ...['Allow failsafe', 'Allow rule', 'Drop rule'].map((what) => `carrier ${what}`),
];
