/**
 * The calls of an agent to a controller, each about its own node (HTTPS, JSON). The agent's method
 * (agent/receive/controller-client.ts) and the route of the server (controller/publish/calls.ts)
 * follow from them; calls between controllers are in controller/publish/peer-calls.ts.
 */
import { LEASE_ANSWER, type LeaseRequest, MOST_LEASE_REQUEST } from './heartbeat.ts';
import { MOST_ANSWER, type NodeAnswer } from './node-question.ts';
import type { NodeReport } from './node-report.ts';
import {
  INWARD_ANSWER,
  INWARD_PATIENCE,
  type InwardQuestion,
  MOST_PROBES_BODY,
  type PeerAnswer,
} from './probes.ts';
import { checked, decode } from './schema/shape.ts';
import { NODE_VIEWS_PATH } from './stream.ts';

export interface Call<Request, Answer> {
  readonly method: 'GET' | 'POST' | 'PUT';
  /** `{node}` stands for the name of a Node. */
  readonly path: string;
  /** Bytes of the request's body as JSON; 0: it has none. */
  readonly mostRequest: number;
  /** Milliseconds that the caller waits for the answer; null: as long as its client does. */
  readonly patience: number | null;
  /** Throws InvalidError. */
  readonly parseAnswer: (value: unknown, request: Request) => Answer;
}

/** A call of an agent. */
export interface AgentCall<Request, Answer> extends Call<Request, Answer> {
  /** Bytes of the answer that the agent reads; 0: none is read. */
  readonly mostAnswer: number;
}

/** The path of a call about a node. */
export function pathOf({ path }: Pick<Call<never, unknown>, 'path'>, node: string): string {
  return path.replace('{node}', encodeURIComponent(node));
}

const OF_NODE = `${NODE_VIEWS_PATH}/{node}`;
const MOST_REPORT = 256 << 10;
const MOST_LEASE_ANSWER = 16 << 20;

/** A call whose answer is empty. */
const UNANSWERED = { mostAnswer: 0, patience: null, parseAnswer: () => {} } as const;

export const AGENT_CALLS = {
  report: {
    ...UNANSWERED,
    method: 'PUT',
    path: `${OF_NODE}/status`,
    mostRequest: MOST_REPORT,
  } as AgentCall<NodeReport, void>,
  /** A heartbeat. Its patience is a quarter of a default lease: two replicas may be silent. */
  lease: {
    method: 'POST',
    path: `${OF_NODE}/lease`,
    mostRequest: MOST_LEASE_REQUEST,
    mostAnswer: MOST_LEASE_ANSWER,
    patience: 500,
    parseAnswer: (value: unknown, _: LeaseRequest) => checked(LEASE_ANSWER, value),
  },
  /** Asks for connections to the node. */
  probes: {
    method: 'POST',
    path: `${OF_NODE}/probes`,
    mostRequest: MOST_PROBES_BODY,
    mostAnswer: MOST_PROBES_BODY,
    patience: INWARD_PATIENCE.connection + INWARD_PATIENCE.onTheWay,
    parseAnswer: (value: unknown, _: InwardQuestion) => decode(INWARD_ANSWER, value),
  },
  /** Answers a ProbeUpdate. */
  probeAnswer: {
    ...UNANSWERED,
    method: 'POST',
    path: `${OF_NODE}/probeanswer`,
    mostRequest: MOST_PROBES_BODY,
  } as AgentCall<PeerAnswer, void>,
  /** Answers a QuestionUpdate. */
  answer: {
    ...UNANSWERED,
    method: 'POST',
    path: `${OF_NODE}/answer`,
    mostRequest: MOST_ANSWER,
  } as AgentCall<NodeAnswer, void>,
} as const satisfies Record<string, AgentCall<never, unknown>>;
