/**
 * Facts that only a node knows (its counters, records, flows, names, interfaces, metrics, …), asked
 * for through the controllers (docs/cluster.md): the question of a controller to an agent by its
 * stream (QuestionUpdate), the agent's answer, and the messages that controllers pass on to each
 * other.
 */
import { NODE_VIEWS_PATH } from './stream.ts';

/** Subresources of a node view; metrics have a path of their own (scrape-path.ts). */
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

export interface NodeQuestion {
  readonly about: NodeData | 'metrics';
  /** Parameters as in the query of a URL, without `?`; '': none. */
  readonly query: string;
}

/** Where users get what a node knows. */
export function nodeDataPath(node: string, about: NodeData): string {
  return `${NODE_VIEWS_PATH}/${encodeURIComponent(node)}/${about}`;
}

/**
 * JSON; metrics: Prometheus' text format. Or the reason why there is none: `isRefused` if the
 * question was wrong.
 */
export type Answered = { readonly text: string } | { readonly problem: string; readonly isRefused?: true };

export type NodeAnswer = { readonly id: string } & Answered;

/**
 * The message that one controller passes on to another; a question is answered with Answered, or
 * `{}`.
 */
export type PassedQuestion =
  | ({ readonly kind: 'question'; readonly node: string } & NodeQuestion)
  | { readonly kind: 'answer'; readonly node: string; readonly answer: NodeAnswer };

/** Milliseconds that an agent has for an answer, and another controller beyond them. */
export const QUESTION_PATIENCE = { agent: 4_000, onTheWay: 1_000 } as const;
/** Bytes of an answer: metrics or counters of about 5,000 rules, fifty times what is usual. */
export const MOST_ANSWER = 1 << 20;
/** … and of an answer that another controller passes on. */
export const MOST_PASSED = MOST_ANSWER + 1024;
/** Characters of a query; a request's head is 8 KiB at most. */
export const LONGEST_QUERY = 4096;

const LONGEST_ID = 64;
const LONGEST_PROBLEM = 500;

type Fields = Readonly<Record<string, unknown>>;

export function isNodeData(part: string | undefined): part is NodeData {
  return NODE_DATA.some((one) => one === part);
}

/** Null: it is no question. */
export function parseNodeQuestion(value: unknown): NodeQuestion | null {
  const { about, query }: Fields = Object(value);
  if (about !== 'metrics' && !(typeof about === 'string' && isNodeData(about))) return null;
  return typeof query === 'string' && query.length <= LONGEST_QUERY ? { about, query } : null;
}

/** Null: it is neither. */
export function parseAnswered(value: unknown): Answered | null {
  const { text, problem, isRefused }: Fields = Object(value);
  if (typeof text === 'string') return { text };
  if (typeof problem !== 'string' || problem.length > LONGEST_PROBLEM) return null;
  return isRefused === true ? { problem, isRefused } : { problem };
}

export function parseNodeAnswer(value: unknown): NodeAnswer | null {
  const { id }: Fields = Object(value);
  const answered = parseAnswered(value);
  if (typeof id !== 'string' || id === '' || id.length > LONGEST_ID || answered === null) return null;
  return { id, ...answered };
}
