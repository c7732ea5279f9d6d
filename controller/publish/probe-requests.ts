import type { IncomingMessage } from 'node:http';
import {
  type InwardAnswer,
  type InwardQuestion,
  type InwardResult,
  MOST_PROBES_BODY,
  type PeerAnswer,
  parseInwardQuestion,
  parsePeerAnswer,
} from '../../apis/inward-probe.ts';
import { type Answer, allowed, jsonBody, noNode, refused } from './answer.ts';
import type { Identity } from './auth.ts';
import type { Hub } from './hub.ts';
import { forbidden, notFromPeer, type PeerOptions, type PermissionOptions } from './permission.ts';

/** Connections to nodes, for their guarded apply. */
export interface ProbeService {
  take(node: string, question: InwardQuestion): Promise<InwardAnswer>;
  /** Makes those that this replica itself can. */
  takeHere(node: string, question: InwardQuestion): Promise<readonly InwardResult[]>;
  answered(prober: string, answer: PeerAnswer): void;
  answeredHere(prober: string, answer: PeerAnswer): void;
}

export interface ProbeOptions extends PermissionOptions, PeerOptions {
  readonly hub: Pick<Hub, 'has'>;
  /** Absent: this controller makes no probes. */
  readonly probes?: ProbeService;
}

interface OfAgent {
  readonly request: IncomingMessage;
  readonly identity: Identity;
}

/** An agent asks for connections to its node. */
export async function inwardProbes(
  options: ProbeOptions,
  { request, identity }: OfAgent,
  name: string,
): Promise<Answer> {
  const { hub, probes } = options;
  const denied = await forbidden(options, identity, { verb: 'update', subresource: 'probes', name });
  if (denied !== null) return denied;
  if (probes === undefined) return none();
  if (!hub.has(name)) return noNode(name);
  const value = await jsonBody(request, MOST_PROBES_BODY, 'the question');
  if ('failure' in value) return value;
  const question = parseInwardQuestion(value.json);
  if ('problem' in question) return refused('Invalid', question.problem);
  return { code: 200, body: await probes.take(name, question) };
}

/** An agent answers what it was asked for by its stream. */
export async function probeAnswer(
  options: ProbeOptions,
  { request, identity }: OfAgent,
  name: string,
): Promise<Answer> {
  const denied = await forbidden(options, identity, { verb: 'update', subresource: 'probeanswer', name });
  if (denied !== null) return denied;
  const { probes } = options;
  if (probes === undefined) return none();
  const value = await jsonBody(request, MOST_PROBES_BODY, 'the answer');
  if ('failure' in value) return value;
  const answer = parsePeerAnswer(value.json);
  if ('problem' in answer) return refused('Invalid', answer.problem);
  probes.answered(name, answer);
  return { code: 204, body: null };
}

/** Another controller passes a question or an answer on. */
export async function probesPassedOn(options: ProbeOptions, request: IncomingMessage): Promise<Answer> {
  const wrong = allowed(request, ['POST']);
  if (wrong !== null) return wrong;
  const { probes } = options;
  const stranger = await notFromPeer(options, request);
  if (stranger !== null) return stranger;
  if (probes === undefined) return none();
  const value = await jsonBody(request, MOST_PROBES_BODY, 'the probes');
  if ('failure' in value) return value;
  const { kind, node, prober, answer } = Object(value.json) as Readonly<Record<string, unknown>>;
  if (kind === 'answer' && typeof prober === 'string') {
    const parsed = parsePeerAnswer(answer);
    if ('problem' in parsed) return refused('Invalid', parsed.problem);
    probes.answeredHere(prober, parsed);
    return { code: 200, body: { results: [] } satisfies InwardAnswer };
  }
  const question = parseInwardQuestion(value.json);
  if ('problem' in question) return refused('Invalid', question.problem);
  const results = await probes.takeHere(String(node), question);
  return { code: 200, body: { results } satisfies InwardAnswer };
}

function none(): Answer {
  return refused('NotFound', 'this controller makes no probes to nodes');
}
