import { ruleCounts } from '../agent/inspect/rule-counts.ts';
import {
  type NodeObservation,
  type SeenFinding,
  type SeenFindings,
  seenLint,
} from '../agent/inspect/seen-lint.ts';
import { toTime } from '../agent/record/record-filter.ts';
import type { SeenFindingKind } from '../apis/lint/finding.ts';
import type { NodeFlows } from '../apis/node-flows.ts';
import { toRuleCounts } from '../apis/rule-counts.ts';
import { askEach, askNode, nodeNames } from '../controller/kubeapi/ask-nodes.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { utcText } from '../lib/process/clock.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { allFlowsOfMachine, allFlowsOfNode } from './flows.ts';
import { nodesText, summaryText } from './lint.ts';
import { type OfNode, sayFailed } from './node-data.ts';
import { json, print } from './output.ts';
import { fieldText } from './record-text.ts';
import { lastText } from './rules.ts';

interface SeenLintOptions extends OfNode, MachineOptions, Printed<'text' | 'json'> {
  readonly allNodes: boolean;
  /** How long a rule must have been watched. */
  readonly window: string;
  /** Absent: all kinds. */
  readonly only?: readonly string[];
}

/**
 * `nodewall lint` without manifests: what counters and flow inventories say of the rules in force,
 * on this machine, a node, or all nodes of a cluster. Exit status 1 if anything is found, 3 if no
 * node answers.
 */
export async function seenLintCommand(options: SeenLintOptions): Promise<ExitStatus> {
  const { allNodes, node, kubeconfig, window, only } = options;
  if (allNodes && node !== undefined)
    throw new CommandError(EXIT.usage, 'give either --node or --all-nodes, not both');
  const from = toTime(window, Date.now());
  if (from === null)
    throw new CommandError(
      EXIT.usage,
      `--window: ${JSON.stringify(window)}: must be as in 7d, or 2026-11-21T15:00:00Z`,
    );
  const nodes =
    allNodes || node !== undefined
      ? await withCluster(kubeconfig, (request) => ofCluster(request, node))
      : [await ofMachine(options)];
  if (nodes.length === 0) return EXIT.refused;
  const found = seenLint(nodes, from);
  const isWanted = ({ kind }: SeenFinding): boolean => only === undefined || only.includes(kind);
  const shown = { ...found, findings: found.findings.filter(isWanted) };
  const since = utcText(from);
  await print(options.output === 'json' ? json({ since, ...shown }) : seenText(shown, since));
  return shown.findings.length > 0 ? EXIT.invalid : EXIT.done;
}

async function ofMachine(options: SeenLintOptions): Promise<NodeObservation> {
  const counts = await ruleCounts(options.stateDir);
  return { counts, flows: await seenBy(counts.node, () => allFlowsOfMachine(options)) };
}

/** Asks all nodes; those that do not answer are named. */
async function ofCluster(request: KubeApi, node: string | undefined): Promise<NodeObservation[]> {
  const ask = async (one: string): Promise<NodeObservation> => {
    const counts = toRuleCounts(await askNode(request, one, 'counters'));
    return { counts, flows: await seenBy(one, () => allFlowsOfNode(request, one)) };
  };
  if (node !== undefined) return [await ask(node)];
  return [...(await askEach(await nodeNames(request), ask, sayFailed)).values()];
}

/** Null: there is no inventory, which is said; counters say something without. */
async function seenBy(node: string, read: () => Promise<NodeFlows>): Promise<NodeFlows | null> {
  try {
    return await read();
  } catch (error) {
    sayFailed(node, (error as Error).message);
    return null;
  }
}

function seenText({ findings, tooYoung, unseen }: SeenFindings, since: string): string {
  const notes = [
    tooYoung > 0 ? `${tooYoung} more rules without a hit are not counted for so long` : '',
    unseen.length > 0
      ? `no flow inventory reaches back so far${nodesText(unseen.map(fieldText))}: which of their rules are wider than seen is not known`
      : '',
  ].filter((note) => note !== '');
  const window = [`Judged by what was counted and seen since ${since}`, ...notes].join('; ');
  return [...findings.map((one) => `${seenBlock(one)}\n`), summaryText(findings), `${window}.\n`].join('');
}

function seenBlock(finding: SeenFinding): string {
  const { kind, policy, rule, direction, nodes } = finding;
  const title = `${kind}: ${fieldText(policy)}/${fieldText(rule)} (${fieldText(direction)})${nodesText(nodes.map(fieldText))}`;
  return `${title}\n  ${sentence(finding, kind)}\n`;
}

function sentence({ width, networks, services, since, lastHit }: SeenFinding, kind: SeenFindingKind): string {
  const seen = [...services, ...networks].map((one) => one.split(' ').map(fieldText).join(' ')).join(', ');
  switch (kind) {
    case 'not-hit':
      return `no packet matched it in this time; last hit: ${fieldText(lastText({ lastHit }))}, counted since ${fieldText(lastText({ lastHit: since }))}`;
    case 'wider-than-seen': {
      const ports = services.length > 0 ? `${width?.ports} ports` : '';
      const prefixes = [width?.v4 ?? null, width?.v6 ?? null].map((one, i) =>
        one === null || networks.length === 0
          ? ''
          : one === 0
            ? `any IPv${4 + 2 * i} address`
            : `IPv${4 + 2 * i} networks of up to /${one}`,
      );
      const allowed = [...prefixes, ports].filter((one) => one !== '').join(' and ');
      return `allows ${allowed}; its flows since ${fieldText(since)} had only ${seen}`;
    }
    case 'failsafe-in-effect':
      return `would deny flows that the failsafe list keeps: ${seen}`;
    default:
      return kind satisfies never;
  }
}
