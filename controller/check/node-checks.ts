import { type NodePhase, type NodeReport, nodePhase } from '../../apis/node-report.ts';
import { rowsText } from '../../apis/platform.ts';
import { asFields, asList } from '../../apis/schema/json-schema.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type CheckLine, firstNames, ok, problem, warning } from '../../lib/process/check-line.ts';
import { askEach, askNode } from '../kubeapi/ask-nodes.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { SingleCheck } from './checked.ts';

interface View {
  readonly metadata: { readonly name: string };
  readonly status?: NodeReport;
}

/** An answer to the question `machine`, as far as it is looked at. */
interface Machine {
  readonly time?: unknown;
  readonly configuration?: unknown;
  readonly otherChains?: unknown;
}

/**
 * Milliseconds. Tokens and certificates bear minutes; records and Leases are hard to read sooner.
 */
const SKEW = { warning: 5_000, problem: 60_000 };
/** Hooks where another firewall judges what reaches a node or leaves it. */
const HOOKS = ['input', 'output', 'prerouting'];

interface NodeChecksOptions {
  /** The version of this program. */
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Checks of the nodes; each asks each agent one question. */
export function nodeChecks({ version, now }: NodeChecksOptions): Readonly<Record<string, SingleCheck>> {
  return {
    agents: async (request) => {
      const { items = [] } = await request<{ readonly items?: readonly View[] }>({
        method: 'GET',
        path: NODE_VIEWS_PATH,
      });
      const phases = Map.groupBy(items, ({ status }) => nodePhase(status ?? null, now()));
      const there = items.filter(
        ({ status }) => !['Unknown', 'Silent'].includes(nodePhase(status ?? null, now())),
      );
      return [
        ...agentLines(items, phases),
        ...versionLines(there, version),
        ...(await machineLines(request, there.map(nameOf), now)),
      ];
    },
  };
}

/** The annotation of each Node that says what it needs to carry pods, as its agent reported. */
export async function reportedPlatforms(
  request: KubeApi,
): Promise<readonly (readonly [node: string, text: string])[]> {
  const { items = [] } = await request<{ readonly items?: readonly View[] }>({
    method: 'GET',
    path: NODE_VIEWS_PATH,
  });
  return items.flatMap((item) => {
    const rows = item.status?.platform;
    return rows === undefined ? [] : [[nameOf(item), rowsText(rows)] as const];
  });
}

const NEXT = {
  Unknown: 'kubectl get pods -n nodewall-system -o wide; then the log of the agent',
  Silent: 'the rules there stay in force; look at the node, then at the log of its agent',
  Failing: 'nodewall status names the rules',
  NotFollowing: 'the agent cannot read what its controller sends: give both the same version',
  Off: 'nodewall on, on the node',
  Pending: 'wait; if it stays: the log of the agent',
} as const satisfies Partial<Record<NodePhase, string>>;
const SAID = {
  Unknown: 'no agent has ever reported from',
  Silent: 'no report for minutes from',
  Failing: 'rules are not in force on',
  NotFollowing: 'the controller is not followed on',
  Off: 'nothing is enforced (nodewall off) on',
  Pending: 'the newest rules are not in force yet on',
} as const satisfies Record<keyof typeof NEXT, string>;

function agentLines(
  items: readonly View[],
  phases: ReadonlyMap<NodePhase, readonly View[]>,
): readonly CheckLine[] {
  if (items.length === 0) return [problem('agents', 'the controllers know no Node', 'kubectl get nodes')];
  const lines = (Object.keys(NEXT) as (keyof typeof NEXT)[]).flatMap((phase) => {
    const nodes = (phases.get(phase) ?? []).map(nameOf);
    if (nodes.length === 0) return [];
    const line = phase === 'Pending' ? warning : problem;
    return [line('agents', `${SAID[phase]} ${firstNames(nodes)}`, NEXT[phase])];
  });
  if (lines.length > 0) return lines;
  return [ok('agents', `of all ${items.length} nodes, with the newest rules in force`)];
}

/** docs/version-skew.md: one minor version apart. */
function versionLines(there: readonly View[], version: string): readonly CheckLine[] {
  const far = there.filter(({ status }) => isFar(status?.version ?? '', version));
  if (far.length > 0)
    return [
      problem(
        'agent versions',
        `more than one minor version from ${version}: ${firstNames(far.map((one) => `${nameOf(one)} (${one.status?.version})`))}`,
        'upgrade one minor version at a time, agents and controllers',
      ),
    ];
  const others = there.filter(({ status }) => status?.version !== version);
  if (others.length > 0)
    return [
      warning(
        'agent versions',
        `other than ${version}: ${firstNames(others.map(nameOf))}`,
        'finish the upgrade',
      ),
    ];
  return there.length === 0 ? [] : [ok('agent versions', version)];
}

function isFar(theirs: string, ours: string): boolean {
  const [a, b] = [theirs, ours].map((one) => /^(\d+)\.(\d+)\./.exec(one));
  if (a === null || b === null || a === undefined || b === undefined) return true;
  return a[1] !== b[1] || Math.abs(Number(a[2]) - Number(b[2])) > 1;
}

async function machineLines(
  request: KubeApi,
  nodes: readonly string[],
  now: () => number,
): Promise<readonly CheckLine[]> {
  const silent: string[] = [];
  const offsets = new Map<string, number>();
  const machines = await askEach(
    nodes,
    async (node) => {
      const begun = now();
      const machine = await askNode<Machine>(request, node, 'machine');
      // Read in the middle between question and answer.
      const offset = Date.parse(String(machine.time)) - (begun + now()) / 2;
      if (Number.isFinite(offset)) offsets.set(node, offset);
      return machine;
    },
    (node, message) => void silent.push(`${node} (${message})`),
  );
  const lines: CheckLine[] = [];
  if (silent.length > 0)
    lines.push(
      warning(
        'answers of agents',
        `none from ${firstNames(silent)}`,
        'see nodewall log and explain of that node',
      ),
    );
  if (machines.size === 0) return lines;
  return [...lines, clockLine(offsets), failsafeLine(machines), chainLine(machines)];
}

function clockLine(offsets: ReadonlyMap<string, number>): CheckLine {
  const sorted = [...offsets.values()].sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const apart = [...offsets].map(([node, offset]) => [node, offset - median] as const);
  const worst = apart.filter(([, by]) => Math.abs(by) > SKEW.warning);
  if (Math.abs(median) > SKEW.problem)
    return warning(
      'clocks',
      `those of the nodes and of this machine are ${seconds(median)} apart`,
      'synchronise the clock of this machine (or those of all nodes)',
    );
  if (worst.length === 0) return ok('clocks', `within ${SKEW.warning / 1000} s of each other`);
  const line = worst.some(([, by]) => Math.abs(by) > SKEW.problem) ? problem : warning;
  const texts = worst.map(([node, by]) => `${node} (${seconds(by)})`);
  return line(
    'clocks',
    `apart from the other nodes: ${firstNames(texts)}`,
    'synchronise them (chrony, timesyncd)',
  );
}

const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`;

function failsafeLine(machines: ReadonlyMap<string, Machine>): CheckLine {
  const without = [...machines].filter(([, { configuration }]) => {
    const { ingress, egress } = asFields(asFields(configuration)?.failsafe) ?? {};
    return asList(ingress).length === 0 || asList(egress).length === 0;
  });
  if (without.length === 0) return ok('failsafe list', 'not empty on any node');
  return warning(
    'failsafe list',
    `empty for ingress or egress on ${firstNames(without.map(([node]) => node))}: a blanket Drop can cut them off`,
    'remove failsafe from the configuration of the agents: the default keeps API server, etcd, kubelet and DNS',
  );
}

/** Chains of other firewalls that drop what no rule of theirs accepts. */
function chainLine(machines: ReadonlyMap<string, Machine>): CheckLine {
  const found = [...machines].flatMap(([node, { otherChains }]) =>
    asList(asFields(otherChains)?.chains)
      .map((one) => asFields(one) ?? {})
      .filter(({ policy, hook }) => policy === 'drop' && HOOKS.includes(String(hook)))
      .map(({ family, table, chain }) => `${node} (${family} ${table} ${chain})`),
  );
  if (found.length === 0) return ok('other tables', 'none has a base chain that drops by default');
  return warning(
    'other tables',
    `base chains that drop what their rules do not accept: ${firstNames(found)}`,
    'what they drop stays dropped, whatever a policy allows (docs/operations.md)',
  );
}

function nameOf({ metadata: { name } }: View): string {
  return name;
}
