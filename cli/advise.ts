import { explainMany } from '../agent/observe/indexed-rules.ts';
import type { Config } from '../apis/config.ts';
import type { NodeFlows } from '../apis/node-flows.ts';
import {
  type ClusterNetworkPolicy,
  type ClusterObjects,
  type Direction,
  NO_OBJECTS,
} from '../apis/objects.ts';
import { validateOptions } from '../apis/validate/object.ts';
import { AdviceCollector, type Guarantee } from '../controller/advise/advice-collector.ts';
import { type Advice, advise } from '../controller/advise/advise.ts';
import type { Unheard } from '../controller/advise/review-list.ts';
import { compile } from '../controller/compile/compile.ts';
import { tierPriority } from '../controller/compile/policy-rules.ts';
import { askEach, INVENTORIES_AT_ONCE } from '../controller/kubeapi/ask-nodes.ts';
import { type KubeApi, listObjects } from '../controller/kubeapi/kube-api.ts';
import { nodeView } from '../controller/publish/node-view.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { compareText } from '../lib/sharing/lists.ts';
import { adviceManifest, adviceYaml } from './advice-yaml.ts';
import { clusterObjects, hasKubeconfig, withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { allFlowsOfMachine, allFlowsOfNode, readSavedFlows } from './flows.ts';
import { load, loadConfig } from './load.ts';
import { MachineNode } from './machine-node.ts';
import { sayFailed } from './node-data.ts';
import { json, print } from './output.ts';

interface AdviseCommandOptions extends MachineOptions, Printed<'yaml' | 'json'> {
  readonly kubeconfig?: string;
  readonly machine: boolean;
  readonly node?: readonly string[];
  readonly selector?: string;
  /** Answers of `nodewall flows -o json`, instead of asking. */
  readonly flows?: readonly string[];
  readonly manifests?: readonly string[];
  readonly direction?: Direction;
  readonly maxCidrs: string;
  readonly tier: string;
  readonly priority: string;
}

/** Inventories, what they are about, and where policies for it belong. */
interface Heard {
  readonly objects: ClusterObjects;
  readonly collector: AdviceCollector;
  readonly unheard: Unheard;
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly isCluster: boolean;
}

/**
 * `nodewall advise`: policies from the flow inventories of a cluster's nodes, of this machine, or
 * of files. Exit status 3 if no node answers.
 */
export async function adviseCommand(options: AdviseCommandOptions): Promise<ExitStatus> {
  const { direction, tier, output } = options;
  const settings = {
    directions: direction === undefined ? (['ingress', 'egress'] as const) : [direction],
    maxCidrs: numberOption('--max-cidrs', options.maxCidrs, 1_000),
    tier,
    priority: numberOption('--priority', options.priority, 10_000),
  };
  const config = await loadConfig(options.config);
  const heard = await hear(options, config);
  const { objects, collector } = heard;
  if (tierPriority(objects.tiers, 'nodewall.io', tier) === null)
    throw new CommandError(EXIT.usage, `--tier: there is no tier ${JSON.stringify(tier)}`);
  if (collector.windows.length === 0)
    throw new CommandError(EXIT.refused, 'no node has answered: there is nothing to advise from');
  const advice = advise(collector, objects, { ...settings, ...heard });
  await print(output === 'json' ? json(toJson(advice)) : adviceYaml(advice, nextLines(advice, heard)));
  return EXIT.done;
}

function numberOption(option: string, text: string, most: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= most) return value;
  throw new CommandError(
    EXIT.usage,
    `${option}: ${JSON.stringify(text)}: must be a whole number from 1 to ${most}`,
  );
}

async function hear(options: AdviseCommandOptions, config: Config): Promise<Heard> {
  const { kubeconfig, machine, node, selector, flows, manifests } = options;
  if (flows !== undefined) return await hearFiles(flows, options, config);
  const isOfCluster = kubeconfig !== undefined || node !== undefined || selector !== undefined;
  if (machine && isOfCluster)
    throw new CommandError(EXIT.usage, 'give either --machine, or --kubeconfig, --node and --selector');
  if (!machine && manifests !== undefined && isOfCluster)
    throw new CommandError(
      EXIT.usage,
      'in a cluster its own objects count: --manifests is for --machine and --flows',
    );
  if (!machine && manifests === undefined && (isOfCluster || hasKubeconfig(kubeconfig)))
    return await hearCluster(options, config);
  return { ...(await collected([await allFlowsOfMachine(options)], options, config)), now: Date.now() };
}

/** Asks nodes of a cluster, and keeps of each answer what advice needs. */
async function hearCluster(options: AdviseCommandOptions, config: Config): Promise<Heard> {
  const { kubeconfig } = options;
  const objects = await clusterObjects(kubeconfig, config, false);
  return await withCluster(kubeconfig, async (request) => {
    const asked = await askedNodes(options, objects, request);
    const collector = new AdviceCollector(objects, config.interfaceGroups.pods);
    const guarantee = guarantees(objects, config);
    const silent: { node: string; message: string }[] = [];
    const ask = async (name: string): Promise<void> =>
      collector.add(name, await allFlowsOfNode(request, name), guarantee(name));
    const failed = (name: string, message: string): void => {
      silent.push({ node: name, message: `did not answer: ${message}` });
      sayFailed(name, message);
    };
    await askEach(asked, ask, failed, INVENTORIES_AT_ONCE);
    silent.sort((a, b) => compareText(a.node, b.node));
    const notAsked = objects.nodes.map(({ name }) => name).filter((name) => !asked.includes(name));
    return { objects, collector, unheard: { silent, notAsked }, now: Date.now(), isCluster: true };
  });
}

/** Sorted. Throws a CommandError if there is none, KubeError if the selector is not valid. */
async function askedNodes(
  { node, selector }: AdviseCommandOptions,
  { nodes }: ClusterObjects,
  request: KubeApi,
): Promise<string[]> {
  const all = new Set(nodes.map(({ name }) => name));
  const unknown = (node ?? []).filter((name) => !all.has(name)).map((name) => JSON.stringify(name));
  if (unknown.length > 0)
    throw new CommandError(EXIT.usage, `--node: the cluster has no Node ${unknown.join(', ')}`);
  const list = { path: '/api/v1/nodes', query: { labelSelector: selector ?? '' } };
  const { objects: selected } = await listObjects(request, list, Number.POSITIVE_INFINITY);
  const names = selected.flatMap(({ metadata }) => metadata?.name ?? []);
  const asked = names.filter((name) => all.has(name) && (node === undefined || node.includes(name)));
  if (asked.length > 0) return asked.sort();
  throw new CommandError(EXIT.usage, 'no Node of the cluster is selected');
}

async function hearFiles(
  files: readonly string[],
  options: AdviseCommandOptions,
  config: Config,
): Promise<Heard> {
  const found = (await Promise.all(files.map(readSavedFlows))).flat();
  // When they were asked for: files are read later, and elsewhere.
  const times = found.flatMap(({ liveAt, flows }) => [liveAt, ...flows.map(({ lastSeen }) => lastSeen)]);
  const now = times.reduce((latest, time) => Math.max(latest, Date.parse(String(time)) || 0), 0);
  const heard = await collected(found, options, config);
  const answered = new Set(found.map(({ node }) => node));
  const silent = heard.objects.nodes.map(({ name }) => name).filter((name) => !answered.has(name));
  const unheard = {
    silent: silent.sort().map((node) => ({ node, message: 'no file has its flows' })),
    notAsked: [],
  };
  return { ...heard, now, unheard, isCluster: heard.objects.nodes.length > 1 };
}

/** With the objects of the manifests, and this machine's Node if they declare none. */
async function collected(
  found: readonly NodeFlows[],
  { manifests = [] }: AdviseCommandOptions,
  config: Config,
): Promise<Omit<Heard, 'now'>> {
  const read = manifests.length === 0 ? NO_OBJECTS : (await load({ manifests }, config)).objects;
  const objects = new MachineNode({ ...validateOptions(config), egress: true }).with(read);
  const collector = new AdviceCollector(objects, config.interfaceGroups.pods);
  const guarantee = guarantees(objects, config);
  for (const one of found) {
    if (!objects.nodes.some(({ name }) => name === one.node))
      throw new CommandError(
        EXIT.invalid,
        `the flows are of Node ${JSON.stringify(one.node)}, which is not declared: give the manifests that declare it with --manifests`,
      );
    collector.add(one.node, one, guarantee(one.node));
  }
  return { objects, collector, unheard: { silent: [], notAsked: [] }, isCluster: false };
}

/** Advice on the next steps with the policies. */
function nextLines({ roles }: Advice, { isCluster }: Heard): string[] {
  const [first = 'NAME'] = roles.flatMap(({ policies }) => policies.map(({ name }) => name));
  const all = isCluster ? ' --all-nodes' : '';
  const apply = isCluster ? 'kubectl apply -f advised.yaml' : 'cp advised.yaml /etc/nodewall/manifests/';
  return [
    'Next, with this file as advised.yaml:',
    ...(isCluster ? [] : ['  nodewall validate --manifests advised.yaml']),
    `  nodewall impact -f advised.yaml${all}    # what it would deny of what was seen`,
    `  ${apply}    # the audit begins`,
    `  nodewall log${all} --audit --deciding --verdict Drop    # what it would drop; after a week or more`,
    ...(isCluster
      ? [
          'To enforce one of them, on one node first and then on more (docs/rollout.md):',
          `  kubectl patch ncnp ${first} --type merge -p '{"spec":{"mode":"Enforce","rollout":{"steps":[1,"25%","100%"]}}}'`,
        ]
      : ['To enforce it, remove the line `mode: Audit` in /etc/nodewall/manifests/advised.yaml.']),
  ];
}

function toJson({ roles, ...rest }: Advice): object {
  return {
    policies: roles.flatMap(({ policies }) => policies.map(adviceManifest)),
    roles: roles.map(({ policies, ...role }) => ({
      ...role,
      policies: policies.map(({ name, ingress, egress }) => ({
        name,
        evidence: Object.entries({ ingress, egress }).flatMap(([direction, rules]) =>
          rules.flatMap(({ rule, evidence }) =>
            evidence === null ? [] : { direction, rule: rule.name, ...evidence },
          ),
        ),
      })),
    })),
    ...rest,
  };
}

const REST = { name: 'rest', action: 'Drop' } as const;
/** Closes all that a policy without ports can close. */
const BLANKET: ClusterNetworkPolicy = {
  kind: 'ClusterNetworkPolicy',
  apiGroup: 'nodewall.io',
  name: 'blanket',
  uid: '',
  generation: 0,
  spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], ingress: [REST], egress: [REST] },
};

/**
 * For each node, which of its kinds are accepted although a policy drops the rest: by which
 * exemption, or by the failsafe list. Asks the evaluation of `explain`.
 */
export function guarantees(objects: ClusterObjects, config: Config): (node: string) => Guarantee {
  const compiled = compile({ ...objects, policies: [BLANKET], guardrails: [] });
  return (node) => {
    const explain = explainMany(nodeView(compiled, node), config);
    return ({ flow, decision }) => {
      // The agent's own configuration counts, where it says so.
      if (decision?.reason === 'exempt') return decision.exemption ?? 'exempt';
      const { reason, exemption } = explain(flow);
      if (reason === 'exempt') return exemption ?? 'exempt';
      return reason === 'failsafe' ? 'failsafe' : null;
    };
  };
}
