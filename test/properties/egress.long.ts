import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import { egressScenario } from '../generate/egress/egress-scenario.ts';
import { agreeOnEgress } from './egress-agree.ts';
import { agreeOnNodes } from './egress-nodes.ts';
import { check } from './runs.ts';

// All cases, not the part that `npm test` tries.
process.env.NODEWALL_RUNS ??= '1';

const ROUND = 20;

/** A million flows through small clusters, and larger ones in which more policies meet. */
describe('egress gateways, long', function () {
  this.timeout(0);

  for (const [size, cases] of [
    [4, 800],
    [8, 1200],
    [20, 600],
  ] as const) {
    it(`have answers and nodes that agree, with up to ${size} policies`, function () {
      // A round has its own time.
      for (let done = 0; done < cases; done += ROUND) {
        check(this, ROUND, egressScenario(size, 400), (drawn) => {
          const agreed = agreeOnEgress(drawn, new Map());
          const nodes = nodeEgressCompiler()(agreed.compiled);
          agreeOnNodes(drawn, agreed, nodes, new Map());
        });
      }
    });
  }
});
