/** The kinds of flows that a node has, as its agent answers (docs/flows.md). */
import { parseAddress, parseCidr } from '../lib/net/address.ts';
import type { FailsafeEntry, FailsafePeers } from './config.ts';
import { type Flow, type FlowAnswer, PROTOCOL_NUMBERS, parseFlow } from './flow.ts';
import type { RuleAction } from './objects.ts';
import type { PlatformEntry } from './platform.ts';
import {
  BOOLEAN,
  COUNT,
  checked,
  either,
  FLAG,
  integer,
  list,
  nullable,
  type Of,
  object,
  oneOf,
  type Shape,
  shape,
  TIME,
  text,
  tuple,
  where,
} from './schema/shape.ts';

const VERDICT = oneOf('Allow', 'Drop', 'Reject');
const PORT = integer(0, 65_535);
const BYTE = integer(0, 255);
const PROTOCOL = either(
  'a protocol',
  oneOf(...(Object.keys(PROTOCOL_NUMBERS) as (keyof typeof PROTOCOL_NUMBERS)[])),
  BYTE,
);
const PEER = where(text(), 'an IP address or CIDR', (one) => {
  return parseAddress(one) !== null || parseCidr(one) !== null;
});
/** Its link group is a number: names are those of the agent's configuration. */
const FLOW = shape<Flow>('a flow', isFlow);

function isFlow(value: unknown): boolean {
  try {
    return typeof parseFlow(value).interfaceGroup !== 'string';
  } catch {
    return false;
  }
}

const RULE = { policy: text(), rule: text() };
/** A newer agent may have other reasons, and other actions. */
const ANSWER: Shape<FlowAnswer> = object(
  {
    verdict: VERDICT,
    policy: nullable(text()),
    rule: nullable(text()),
    ruleIndex: nullable(COUNT),
    tier: nullable(text()),
    reason: text() as Shape<FlowAnswer['reason']>,
    skipped: list(object(RULE)),
  },
  {
    exemption: text(),
    audited: list(object({ ...RULE, action: text() as Shape<RuleAction> })),
  },
);

export type NodeFlow = Of<typeof NODE_FLOW>;
export const NODE_FLOW = where(
  object(
    {
      direction: oneOf('ingress', 'egress'),
      traffic: oneOf('Host', 'NodePort'),
      /** An address, or a CIDR for many. */
      peer: PEER,
      protocol: PROTOCOL,
      /** The verdict on the flows. */
      verdict: VERDICT,
      connections: COUNT,
      /** Null: not known. */
      live: nullable(COUNT),
      firstSeen: TIME,
      lastSeen: TIME,
      /**
       * The flow that rules are asked about: the last one of the kind. Where the kind has many
       * peers or ports, it is one example of them.
       */
      flow: FLOW,
      /** The decision of the rules in force; null: none are in force. */
      decision: nullable(ANSWER),
    },
    {
      /** The server's port. */
      port: PORT,
      icmpType: BYTE,
      icmpCode: BYTE,
      /** Many ports, or types, that no other kind names. */
      allPorts: FLAG,
      /**
       * Link group of the interface: a name of the configuration, else the number. Absent: none.
       */
      interfaceGroup: either("a group's name or number", text(), integer(0)),
    },
  ),
  'a kind of flows',
  ({ traffic, direction }) => traffic === 'Host' || direction === 'ingress',
);

const PORTS = where(tuple(PORT, PORT), 'two ports', ({ length }) => length === 2);
const FAILSAFE_ENTRY: Shape<FailsafeEntry> = object(
  {
    protocol: oneOf('tcp', 'udp', 'sctp'),
    ports: PORTS,
    peers: either('peers', text() as Shape<FailsafePeers>, list(text())),
  },
  { apiServer: FLAG },
);
const PLATFORM_ENTRY: Shape<PlatformEntry> = object(
  {
    protocol: either('tcp, udp, sctp or a number', oneOf('tcp', 'udp', 'sctp'), BYTE),
    ports: PORTS,
    peers: either('peers', oneOf('nodes'), list(text())),
    reason: text(),
  },
  { direction: oneOf('ingress', 'egress') },
);

/** Flows that an inventory lacks. */
export type Missed = { -readonly [K in keyof Of<typeof MISSED>]: number };
const MISSED = object({
  /** Kinds that were left out because there were too many. */
  leftOut: COUNT,
  /** Times that the kernel discarded events because the agent was too slow. */
  overruns: COUNT,
  /** Seconds in which more connections began than the agent reads. */
  busySeconds: COUNT,
});

/** Kinds of flows of a node. Times are ISO 8601, to the second. */
export type NodeFlows = Of<typeof NODE_FLOWS>;
const NODE_FLOWS = object(
  {
    node: text(),
    /** Since when flows are seen. */
    since: TIME,
    /** When live connections were counted; null: they cannot be. */
    liveAt: nullable(TIME),
    /** Last seen first; of a page, in the order of their keys. */
    flows: list(NODE_FLOW),
    /** Whether more kinds match. */
    isCut: BOOLEAN,
    /** Kinds of the inventory. */
    kinds: COUNT,
    missed: MISSED,
  },
  {
    /**
     * The place where the next page begins. Absent: this was the last, or pages were not asked for.
     */
    continue: text(),
    /**
     * The agent's additions to the failsafe list of egress (NodeState.controlPlane); absent:
     * nothing.
     */
    controlPlane: list(FAILSAFE_ENTRY),
    /** The node needs these to carry pods (NodeState.platform); absent: none, or not known. */
    platform: list(PLATFORM_ENTRY),
  },
);

/**
 * The flows that a node answers with. A node may be compromised, and its answer is shown together
 * with those of others, and becomes part of policies. Throws InvalidError.
 */
export function parseNodeFlows(answer: unknown): NodeFlows {
  return checked(NODE_FLOWS, answer, 'its answer is not one about flows');
}

/** The text of a bundle in place of flows, and the reason. */
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
 * none is in it twice. Throws if `ask` does, if the node's answers have no end, and an
 * InvalidError if one of them has another form.
 *
 * @param ask takes the parameters of a question about `flows`
 */
export async function allFlows(ask: (query: URLSearchParams) => Promise<unknown>): Promise<NodeFlows> {
  const flows: NodeFlow[] = [];
  let liveAt: string | null = null;
  let next: string | undefined = '';
  for (let page = 0; page < MOST_PAGES; page++) {
    const { continue: after, ...answer }: NodeFlows = parseNodeFlows(
      await ask(new URLSearchParams({ continue: next, lines: String(PAGE) })),
    );
    flows.push(...answer.flows);
    if (page === 0) liveAt = answer.liveAt;
    if (after === undefined) return { ...answer, liveAt, flows, isCut: false };
    if (after <= next) break;
    next = after;
  }
  throw new Error('the pages of its flow inventory have no end');
}
