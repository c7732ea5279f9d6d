/**
 * Facts that only a node knows (its counters, records, flows, names, interfaces, metrics, …), asked
 * for through the controllers (docs/cluster.md): the question of a controller to an agent by its
 * stream (QuestionUpdate), the agent's answer, and the messages that controllers pass on to each
 * other.
 */
import { either, FLAG, type Of, object, oneOf, text, where } from './schema/shape.ts';
import { NODE_VIEWS_PATH } from './stream.ts';

/** Subresources of a node view; metrics have paths of their own. */
export const NODE_DATA = [
  'counters',
  'records',
  'flows',
  'names',
  'interfaces',
  'explanation',
  'machine',
] as const;
export type NodeData = (typeof NODE_DATA)[number];

/** Where users get what a node knows. */
export function nodeDataPath(node: string, about: NodeData): string {
  return `${NODE_VIEWS_PATH}/${encodeURIComponent(node)}/${about}`;
}

/** Where scrapers get the controller's own metrics. */
export const METRICS_PATH = '/metrics';
/**
 * Where scrapers get sums of each node, and of each rule over all nodes; below it, by name, the
 * metrics of a node's agent.
 */
export const ALL_NODES_PATH = `${METRICS_PATH}/nodes`;

/** Milliseconds that an agent has for an answer, and another controller beyond them. */
export const QUESTION_PATIENCE = { agent: 4_000, onTheWay: 1_000 } as const;
/** Bytes of an answer: metrics or counters of about 5,000 rules, fifty times what is usual. */
export const MOST_ANSWER = 1 << 20;
/** … and of an answer that another controller passes on. */
export const MOST_PASSED = MOST_ANSWER + 1024;
/** Characters of a query; a request's head is 8 KiB at most. */
export const LONGEST_QUERY = 4096;

export type NodeQuestion = Of<typeof NODE_QUESTION>;
const QUESTION = {
  about: oneOf(...NODE_DATA, 'metrics'),
  /** Parameters as in the query of a URL, without `?`; '': none. */
  query: text(LONGEST_QUERY),
};
export const NODE_QUESTION = object(QUESTION);

const ID = where(text(64), 'an id', (one) => one !== '');
const TEXT = { text: text() };
/** `isRefused`: the question was wrong. */
const PROBLEM = { problem: text(500) };
const NO_ANSWER = 'text or problem';

/** JSON; metrics: Prometheus' text format. Or the reason why there is none. */
export type QuestionAnswer = Of<typeof ANSWERED>;
export const ANSWERED = either(NO_ANSWER, object(TEXT), object(PROBLEM, { isRefused: FLAG }));

export type NodeAnswer = Of<typeof NODE_ANSWER>;
export const NODE_ANSWER = either(
  `id, and ${NO_ANSWER}`,
  object({ id: ID, ...TEXT }),
  object({ id: ID, ...PROBLEM }, { isRefused: FLAG }),
);

/** A node that was asked, and why there is no answer of it. */
export interface UnansweredNode {
  readonly node: string;
  readonly error: string;
}

/**
 * The message that one controller passes on to another; a question is answered with Answered, or
 * `{}`.
 */
export type PassedQuestion = Of<typeof PASSED_QUESTION>;
export const PASSED_QUESTION = either(
  'a question or an answer',
  object({ kind: oneOf('question'), node: text(), ...QUESTION }),
  object({ kind: oneOf('answer'), node: text(), answer: NODE_ANSWER }),
);
