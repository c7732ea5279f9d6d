/**
 * The kinds of flows that a node has, as its agent answers (docs/flows.md), and how to read all of
 * them: an answer has room for a part only.
 */
import type { FailsafeEntry } from './config.ts';
import type { Answer, Flow, Verdict } from './flow.ts';
import type { Direction } from './objects.ts';
import { parseFlow } from './parse-flow.ts';

/** Kinds of flows of a node. Times are ISO 8601, to the second. */
export interface NodeFlows {
  readonly node: string;
  /** Since when flows are seen. */
  readonly since: string;
  /** When live connections were counted; null: they cannot be. */
  readonly liveAt: string | null;
  /** Last seen first; of a page, in the order of their keys. */
  readonly flows: readonly NodeFlow[];
  /** Whether more kinds match. */
  readonly isCut: boolean;
  /** Of a page: where the next one begins. Absent: this was the last, or pages were not asked for. */
  readonly continue?: string;
  /** What the agent adds to the failsafe list of egress (NodeState.controlPlane); absent: nothing. */
  readonly controlPlane?: readonly FailsafeEntry[];
  /** Kinds of the inventory. */
  readonly kinds: number;
  readonly missed: Readonly<Missed>;
}

export interface NodeFlow {
  readonly direction: Direction;
  readonly traffic: 'Host' | 'NodePort';
  /** An address, or a CIDR for many. */
  readonly peer: string;
  readonly protocol: NonNullable<Flow['protocol']>;
  /** Of the server. */
  readonly port?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  /** Many ports, or types, that no other kind names. */
  readonly allPorts?: true;
  /** Link group of the interface: a name of the configuration, else the number. Absent: none. */
  readonly interfaceGroup?: string | number;
  /** What became of the flows. */
  readonly verdict: Verdict;
  readonly connections: number;
  /** Null: not known. */
  readonly live: number | null;
  readonly firstSeen: string;
  readonly lastSeen: string;
  /**
   * What rules are asked about: the last flow of the kind. Where the kind has many peers or ports,
   * it is one example of them.
   */
  readonly flow: Flow;
  /** What the rules in force decide; null: none are in force. */
  readonly decision: Answer | null;
}

/** What an inventory lacks. */
export interface Missed {
  /** Kinds that were left out because there were too many. */
  leftOut: number;
  /** Times that the kernel discarded events because the agent was too slow. */
  overruns: number;
  /** Seconds in which more connections began than the agent reads. */
  busySeconds: number;
}

/** What a bundle without flows says of them, and why. */
export const FLOWS_LEFT_OUT = [
  'flows',
  'they say who connected to whom in the last days: --with-flows adds them',
] as const;

/** Whether a kind stands for many peers or ports, so that its `flow` is an example only. */
export function isFolded({ peer, allPorts }: Pick<NodeFlow, 'peer' | 'allPorts'>): boolean {
  return allPorts === true || peer.includes('/');
}

/** Kinds of a page: an answer has not room for many more. */
const PAGE = 1_500;
/** An inventory of 10,000 kinds has 15 at most, of kinds with the longest texts. */
const MOST_PAGES = 50;

/**
 * All kinds of a node. Those that are there from the first page to the last are in the result, and
 * none is in it twice. Throws if `ask` does, if the node's answers have no end, and a TypeError if
 * a flow of them is none.
 *
 * @param ask takes the parameters of a question about `flows`
 */
export async function allFlows(ask: (query: URLSearchParams) => Promise<NodeFlows>): Promise<NodeFlows> {
  const flows: NodeFlow[] = [];
  let liveAt: string | null = null;
  let next: string | undefined = '';
  for (let page = 0; page < MOST_PAGES; page++) {
    const { continue: after, ...answer }: NodeFlows = await ask(
      new URLSearchParams({ continue: next, lines: String(PAGE) }),
    );
    for (const one of answer.flows) flows.push({ ...one, flow: parseFlow(one.flow) });
    if (page === 0) liveAt = answer.liveAt;
    if (after === undefined) return { ...answer, liveAt, flows, isCut: false };
    if (after <= next) break;
    next = after;
  }
  throw new Error('the pages of its flow inventory have no end');
}
