import { egressScenario } from '../generate/egress/egress-scenario.ts';
import { agreeOnEgress } from './egress-agree.ts';
import { check } from './runs.ts';

/** A million flows through small clusters, and larger ones in which more policies meet. */
describe('egress gateways, long', function () {
  this.timeout(0);

  for (const [size, cases] of [
    [4, 800],
    [8, 1200],
    [20, 600],
  ] as const) {
    it(`have the answers of explain that the manifests permit, with up to ${size} policies`, function () {
      check(this, cases, egressScenario(size, 400), (drawn) => void agreeOnEgress(drawn, new Map()));
    });
  }
});
