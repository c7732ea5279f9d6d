import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { addressPlan } from '../../test/netns/address-plan.ts';
import { createTopology, type Topology } from '../../test/netns/topology.ts';
import { probeProgram } from '../../test/probe/probe.ts';
import {
  hasClient,
  type PolicyOptions,
  policies,
  policy,
  portOf,
  RULES_A_POLICY,
  THOUSAND_RULES,
} from '../generate/cluster.ts';
import { policyFile, writeManifests, yamlText } from '../generate/manifests.ts';
import { startAgent } from '../measure/agent.ts';
import { atMost, type Benchmark, type Figure, figure } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

const CLIENT = '10.100.0.0/24';
/** The rule that changes: for address blocks, the client's among them. */
const RULE = 507;

type Layout = 'each' | 'one';

export const save: Benchmark = {
  name: 'save',
  title: 'saved to enforced',
  how: 'A running `bin/nodewall agent` with 1,000 rules; a policy file is replaced by rename, and a client in another network namespace opens a new connection every millisecond: the time from the rename to the end of the first connection with the new verdict. Debounce included.',
  async run(settings) {
    const measured: Record<Layout, { saved: number[]; logged: number[] }> = {
      each: { saved: [], logged: [] },
      one: { saved: [], logged: [] },
    };
    const rounds = settings.quick ? 1 : 2;
    for (let round = 0; round < rounds; round++) {
      for (const layout of ['each', 'one'] as const) {
        const folder = join(settings.folder, `${layout}-${round}`);
        const result = await measure(folder, layout, settings.quick ? 4 : 12);
        measured[layout].saved.push(...result.saved);
        measured[layout].logged.push(...result.logged);
      }
    }
    const { each, one } = measured;
    const figures: Figure[] = [
      figure('one policy file of 10 rules saved to enforced, 1,000 rules on the node', 'ms', each.saved, {
        target: atMost(100),
        note: 'debounce of 15 ms included',
      }),
      figure('… of it render and apply, as the agent logs it', 'ms', each.logged),
      figure('one file of all 1,000 rules saved to enforced', 'ms', one.saved),
      figure('… of it render and apply, as the agent logs it', 'ms', one.logged),
    ];
    return figures;
  },
};

async function measure(
  folder: string,
  layout: Layout,
  saves: number,
): Promise<{ saved: number[]; logged: number[] }> {
  const plan = addressPlan({ clients: 1, nodeAddresses: 1 });
  const topology = await createTopology(plan);
  const manifests = join(folder, 'manifests');
  const [{ v4: address } = { v4: '' }] = plan.nodeAddresses;
  await mkdir(manifests, { recursive: true });
  await writeManifests(manifests, THOUSAND_RULES, {
    client: CLIENT,
    policyFiles: layout,
    nodeAddresses: [address],
  });
  const agent = startAgent({ namespace: topology.node, manifests, stateDir: join(folder, 'state') });
  try {
    await listen(topology);
    await agent.untilEnforced(1);
    const before = agent.enforced().length;
    const input = {
      ...(await writeVersions(layout, folder)),
      temporary: join(folder, 'saved'),
      address,
      port: portOf(RULE),
      saves,
    };
    const answer = await runTrial('save', input, topology.clients[0]);
    const rows = Array.from({ length: saves }, (_, i) => ({ saved: answer[i] ?? Number.NaN }));
    const logged = agent.enforced().slice(before);
    return {
      saved: column(rows, 'saved'),
      logged: logged.map(({ milliseconds = Number.NaN }) => milliseconds),
    };
  } finally {
    await agent.stop();
    await topology.close();
  }
}

/** What is saved, in both versions, as files beside the manifests directory. */
async function writeVersions(layout: Layout, folder: string) {
  if (!hasClient(THOUSAND_RULES, RULE)) throw new Error(`rule ${RULE} is not for the client`);
  const index = Math.floor(RULE / RULES_A_POLICY);
  const write = async (name: string, action: 'Allow' | 'Reject'): Promise<string> => {
    const options: PolicyOptions = { client: CLIENT, actions: new Map([[RULE, action]]) };
    const objects =
      layout === 'each' ? [policy(THOUSAND_RULES, index, options)] : policies(THOUSAND_RULES, options);
    await writeFile(join(folder, name), yamlText(objects));
    return join(folder, name);
  };
  return {
    path: join(folder, 'manifests', layout === 'each' ? policyFile(index) : 'policies.yaml'),
    versions: { open: await write('open.yaml', 'Allow'), refused: await write('refused.yaml', 'Reject') },
  };
}

/** Something that takes the connections; it ends with the namespace. */
async function listen({ node }: Topology): Promise<void> {
  const server = node.spawn([await probeProgram(), 'listen', `tcp:${portOf(RULE)}`]);
  await once(server.stdout, 'data');
}
