import type { Config } from '../../apis/config.ts';
import type { EgressConsidered, EgressExplanation, EgressFlow } from '../../apis/egress/flow.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { EgressExplainer } from '../../controller/egress/decide.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { styled } from '../../lib/process/terminal.ts';
import { warnEgressIsOff } from '../load.ts';
import { table } from '../output.ts';

/** The answer to one flow, in both forms. */
export interface ExplainedFlow {
  readonly value: object;
  /** With what was considered. */
  readonly text: () => string;
  /** The verdict as one line. */
  readonly line: () => string;
}

export type EgressAnswerer = (flow: EgressFlow, where: string, considered: boolean) => ExplainedFlow;

/** Says on standard error if agents steer nothing, because the feature gate is off. */
export async function egressAnswerer({
  objects,
  config,
}: {
  readonly objects: ClusterObjects;
  readonly config: Config;
}): Promise<EgressAnswerer> {
  const { compileEgress } = await import('../../controller/egress/compile-egress.ts');
  const decide = await import('../../controller/egress/decide.ts');
  warnEgressIsOff(config);
  const explainer = decide.egressExplainer(objects, compileEgress(objects, config.egress));
  return (flow, where, considered) => {
    const answer = atPlace(where, explainer, flow, considered);
    return { value: answer, line: () => egressVerdictText(answer), text: () => egressText(flow, answer) };
  };
}

function atPlace(
  where: string,
  explainer: EgressExplainer,
  flow: EgressFlow,
  considered: boolean,
): EgressExplanation {
  try {
    return explainer(flow, { considered });
  } catch (error) {
    throw new CommandError(EXIT.invalid, `${where}: ${(error as Error).message}`, { cause: error });
  }
}

function egressText(flow: EgressFlow, answer: EgressExplanation): string {
  const rows = (answer.considered ?? []).map(({ policy, stage, priority, action, mismatch, outcome }, i) => [
    String(i + 1),
    stage,
    String(priority),
    policy,
    action,
    mismatch === null ? OUTCOMES[outcome] : `no match: ${mismatch}`,
  ]);
  const policies =
    rows.length === 0 ? '' : `${table(['#', 'stage', 'priority', 'policy', 'action', 'outcome'], rows)}\n`;
  return `${flowText(flow)}\n\n${policies}${egressVerdictText(answer)}\n`;
}

const OUTCOMES: Readonly<Record<EgressConsidered['outcome'], string>> = {
  'no match': 'no match',
  audited: 'audited: matched, decides nothing',
  decided: 'decided',
};

function flowText({ pod, src, dst, protocol, srcPort, dstPort }: EgressFlow): string {
  const end = (text: string, port: number | undefined): string =>
    port === undefined ? text : `${text} port ${port}`;
  const from = pod === undefined ? (src ?? '') : `pod ${pod}`;
  return `egress gateways, ${protocol ?? 'any protocol'}: ${end(from, srcPort)} to ${end(dst, dstPort)}`;
}

const COLOURS = { Gateway: 'green', Direct: 'green', Drop: 'red' } as const;

/** The verdict as one line. */
function egressVerdictText(answer: EgressExplanation): string {
  const audited = (answer.audited ?? []).map(({ policy, action }) => `${policy} (${action})`);
  const tail = audited.length === 0 ? '' : `; audited: ${audited.join(', ')}`;
  return `${styled(COLOURS[answer.verdict], answer.verdict)}: ${reasonText(answer)}${tail}`;
}

function reasonText(answer: EgressExplanation): string {
  const { verdict, policy, gateway, reason } = answer;
  const by = `policy ${policy}`;
  const at = gateway === null ? '' : ` (gateway ${gateway})`;
  switch (reason) {
    case 'policy':
      return verdict === 'Gateway' ? `${by}, gateway ${gateway}, ${exitText(answer)}` : by;
    case 'inside':
      return 'the destination is inside the cluster';
    case 'host':
      return 'the source is a Node, or a pod with hostNetwork: never steered';
    case 'no-policy':
      return 'no policy matched';
    case 'unknown-pod':
      return "unknown-pod: the source is in a Node's pod network, and no running pod has it";
    case 'no-gateway':
      return `${by}: no-gateway: no gateway of that name, or none that the policy may use`;
    case 'not-ready':
      return `${by}: not-ready: no gateway node is ready, or the owner of the address is not${at}`;
    case 'no-family':
      return `${by}: no-family: the gateway or the policy has no address of the destination's family${at}`;
    case 'no-address':
      return `${by}: no-address: no address of the pools is left for the policy${at}`;
    case 'no-route':
      return `${by}: no-route${at}`;
  }
}

function exitText({ node, nodes = [], address, addresses = [] }: EgressExplanation): string {
  const by = nodes.length === 0 ? `node ${node}` : `one of the nodes ${nodes.join(', ')}`;
  if (addresses.length > 0) return `${by}, one of the addresses ${addresses.join(', ')}`;
  return `${by}, ${address === null ? 'address of its interface' : `address ${address}`}`;
}
