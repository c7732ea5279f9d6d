import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Namespace } from '../../test/netns/namespace.ts';
import { type AddressPlan, addressPlan, createTopology } from '../../test/netns/topology.ts';
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
import { AGENT_CONFIG, startAgent } from '../measure/agent.ts';
import { amount, atMost, type Benchmark, type Figure, figure } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';
import { median } from '../measure/statistics.ts';

const CLIENT = '10.100.0.0/24';
/** The rule that changes: for address blocks, the client's among them. */
const RULE = 507;

/** A port of the client that the guard's probe connects to. */
const PROBED = 4443;

/** A file for each policy; one for all; a file for each, with guarded apply. */
const LAYOUTS = ['each', 'guarded', 'one'] as const;
type Layout = (typeof LAYOUTS)[number];

export const save: Benchmark = {
  name: 'save',
  title: 'saved to enforced',
  how: 'A running `bin/nodewall agent` with 1,000 rules; a policy file is replaced by rename, and a client in another network namespace opens a new connection every millisecond: the time from the rename to the end of the first connection with the new verdict. Debounce included. With guarded apply, every other change denies more and is tried meanwhile.',
  async run(settings) {
    const measured: Record<Layout, { saved: number[]; logged: number[] }> = {
      each: { saved: [], logged: [] },
      guarded: { saved: [], logged: [] },
      one: { saved: [], logged: [] },
    };
    const rounds = settings.quick ? 1 : 2;
    for (let round = 0; round < rounds; round++) {
      for (const layout of LAYOUTS) {
        const folder = join(settings.folder, `${layout}-${round}`);
        const result = await measure(folder, layout, amount(settings, [4, 5, 12]));
        measured[layout].saved.push(...result.saved);
        measured[layout].logged.push(...result.logged);
      }
    }
    const { each, guarded, one } = measured;
    const figures: Figure[] = [
      figure('one policy file of 10 rules saved to enforced, 1,000 rules on the node', 'ms', each.saved, {
        target: atMost(100),
        note: 'debounce of 15 ms included',
      }),
      figure('… of it render and apply, as the agent logs it', 'ms', each.logged),
      figure('one policy file of 10 rules saved to enforced, with guarded apply', 'ms', guarded.saved, {
        target: atMost(100),
        note: `${((100 * median(guarded.saved)) / median(each.saved)).toFixed(0)} % of the time without it`,
      }),
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
    policyFiles: layout === 'one' ? 'one' : 'each',
    nodeAddresses: [address],
  });
  const [client] = topology.clients;
  if (client === undefined) throw new Error('no client');
  await Promise.all([listen(topology.node, portOf(RULE)), listen(client, PROBED)]);
  const stateDir = join(folder, 'state');
  const config = layout === 'guarded' ? await guardConfig(folder, plan) : AGENT_CONFIG;
  const agent = startAgent({ namespace: topology.node, manifests, stateDir, config });
  try {
    await agent.untilEnforced(1);
    const before = agent.enforced().length;
    const input = {
      ...(await writeVersions(layout, folder)),
      temporary: join(folder, 'saved'),
      address,
      port: portOf(RULE),
      saves,
    };
    const answer = await runTrial('save', input, client);
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
      layout !== 'one' ? [policy(THOUSAND_RULES, index, options)] : policies(THOUSAND_RULES, options);
    await writeFile(join(folder, name), yamlText(objects));
    return join(folder, name);
  };
  return {
    path: join(folder, 'manifests', layout === 'one' ? 'policies.yaml' : policyFile(index)),
    versions: { open: await write('open.yaml', 'Allow'), refused: await write('refused.yaml', 'Reject') },
  };
}

/** Guarded apply with its usual times; the probe passes all the time. */
async function guardConfig(folder: string, { clientAddresses }: AddressPlan): Promise<string> {
  const path = join(folder, 'guarded.yaml');
  const probes = [{ name: 'client', tcp: `${clientAddresses[0]?.v4}:${PROBED}` }];
  const guard = JSON.stringify({ enabled: true, probes }); // JSON is YAML
  await writeFile(path, `${await readFile(AGENT_CONFIG, 'utf8')}\nguard: ${guard}\n`);
  return path;
}

/** Something that takes the connections; it ends with the namespace. */
async function listen(at: Namespace, port: number): Promise<void> {
  const server = at.spawn([await probeProgram(), 'listen', `tcp:${port}`]);
  await once(server.stdout, 'data');
}
