import type { IncomingMessage } from 'node:http';
import {
  MOST_ANSWER,
  MOST_PASSED,
  type NodeData,
  parseNodeAnswer,
  parseNodeQuestion,
} from '../../apis/node-question.ts';
import { type Answer, jsonBody, noNode, notYet, refused } from './answer.ts';
import type { Identity } from './auth.ts';
import type { Hub } from './hub.ts';
import type { NodeQuestionService } from './node-questions.ts';
import { forbidden, notFromPeer, type PeerOptions, type PermissionOptions } from './permission.ts';

export interface QuestionOptions extends PermissionOptions, PeerOptions {
  readonly hub: Pick<Hub, 'ready' | 'has'>;
  /** Absent: this controller asks no agents. */
  readonly nodeQuestions?: NodeQuestionService;
}

interface Asked {
  readonly request: IncomingMessage;
  readonly identity: Identity;
}

/** A user asks for what only the node knows. */
export async function nodeData(
  options: QuestionOptions,
  { identity, query }: Asked & { readonly query: URLSearchParams },
  { node, about }: { readonly node: string; readonly about: NodeData },
): Promise<Answer> {
  const denied = await forbidden(options, identity, { verb: 'get', subresource: about, name: node });
  if (denied !== null) return denied;
  const { hub, nodeQuestions } = options;
  if (nodeQuestions === undefined) return none();
  const question = parseNodeQuestion({ about, query: query.toString() });
  if (question === null) return refused('BadRequest', 'the query is too long');
  if (!hub.ready) return notYet();
  if (!hub.has(node)) return noNode(node);
  const answered = await nodeQuestions.ask(node, question);
  if ('text' in answered) return { code: 200, text: answered.text, type: 'application/json' };
  return refused(answered.isRefused ? 'BadRequest' : 'ServiceUnavailable', answered.problem);
}

/** An agent answers what it was asked for by its stream. */
export async function nodeAnswer(
  options: QuestionOptions,
  { request, identity }: Asked,
  name: string,
): Promise<Answer> {
  const denied = await forbidden(options, identity, { verb: 'update', subresource: 'answer', name });
  if (denied !== null) return denied;
  if (options.nodeQuestions === undefined) return none();
  const value = await jsonBody(request, MOST_ANSWER, 'the answer');
  if ('failure' in value) return value;
  const answer = parseNodeAnswer(value.json);
  if (answer === null) return refused('Invalid', NO_ANSWER);
  options.nodeQuestions.answered(name, answer);
  return { code: 204, body: null };
}

/** Another controller passes a question or an answer on. */
export async function questionPassedOn(options: QuestionOptions, request: IncomingMessage): Promise<Answer> {
  const { nodeQuestions } = options;
  const stranger = await notFromPeer(options, request);
  if (stranger !== null) return stranger;
  if (nodeQuestions === undefined) return none();
  const value = await jsonBody(request, MOST_PASSED, 'what is passed on');
  if ('failure' in value) return value;
  const { kind, node, answer } = Object(value.json) as Readonly<Record<string, unknown>>;
  if (typeof node !== 'string') return refused('Invalid', 'node: must be a name');
  if (kind === 'question') {
    const question = parseNodeQuestion(value.json);
    if (question === null) return refused('Invalid', 'about, query: must be a question');
    return { code: 200, body: (await nodeQuestions.askHere(node, question)) ?? {} };
  }
  const parsed = parseNodeAnswer(answer);
  if (kind !== 'answer' || parsed === null) return refused('Invalid', NO_ANSWER);
  nodeQuestions.answeredHere(node, parsed);
  return { code: 200, body: {} };
}

const NO_ANSWER = 'must have id, and text or problem';

function none(): Answer {
  return refused('NotFound', 'this controller asks no agents');
}
