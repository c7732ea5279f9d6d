/**
 * Antrea's cases of node policies (test/cases/antrea-nodes.md) with real packets, under the default
 * configuration: the verdicts that the case expects are those of the kernel.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseCases } from '../cases/case.ts';
import { parseFlowLine } from '../cases/flow-line.ts';
import { readInputs } from '../cases/inputs.ts';
import { addressPlan } from '../netns/topology.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { asObserved, type Flow } from './flow.ts';
import { observe } from './verdicts.ts';

const FILE = 'antrea-nodes.md';
/** The second client is a pod. */
const PLAN = addressPlan({ clients: 2, nodeAddresses: 1, addressesPerClient: 1, groups: [0, 8] });
const CASES = parseCases(FILE, readFileSync(join(import.meta.dirname, '../cases', FILE), 'utf8'));

forEachDataplane(
  "Antrea's cases of node policies",
  (dataplane) => {
    let node: EnforcedNode;
    before(async () => {
      node = await createEnforcedNode(PLAN, dataplane);
    });
    after(() => node?.close());

    for (const one of CASES) {
      it(one.headings.at(-1) ?? '', async () => {
        for (const { steps, fence } of one.expectations) {
          const { raw } = await readInputs(one, steps.flat());
          await node.write('node.json', raw.objects);
          await node.again();
          const lines = fence.text.trimEnd().split('\n').map(parseFlowLine);
          const flows = lines.map(({ flow }) => flow as Flow);
          const observed = await observe(node.topology, flows);
          const differing = lines.flatMap(({ words, expected }, i) => {
            const [wanted = ''] = expected.split(/[ ,]/);
            const verdict = asObserved(flows[i] ?? assert.fail(), wanted as 'Allow' | 'Drop' | 'Reject');
            return observed[i] === verdict ? [] : [`${words} ${expected}, kernel: ${observed[i]}`];
          });
          assert.deepEqual(differing, []);
        }
      });
    }
  },
  EITHER_IPTABLES,
);
