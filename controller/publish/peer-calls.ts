import { type Call, InvalidError, valid } from '../../apis/calls.ts';
import { type ControllerState, parseControllerState } from '../../apis/controller-state.ts';
import {
  type LeaseAnswer,
  type LeaseRequest,
  parseLeaseAnswer,
  parseLeaseRequest,
} from '../../apis/egress/lease.ts';
import {
  INWARD_PATIENCE,
  type InwardAnswer,
  type InwardQuestion,
  MOST_PROBES_BODY,
  type PeerAnswer,
  parseInwardAnswer,
  parseInwardQuestion,
  parsePeerAnswer,
} from '../../apis/inward-probe.ts';
import {
  type Answered,
  MOST_PASSED,
  type PassedQuestion,
  parseAnswered,
  parseNodeAnswer,
  parseNodeQuestion,
  QUESTION_PATIENCE,
} from '../../apis/node-question.ts';
import { CONTROL_PLANE, type NodeReport } from '../../apis/stream.ts';
import type { AgedReport } from './node-reports.ts';
import { parseReport } from './report.ts';

/** Reports that one controller passes on to another. */
export interface ReportBatch {
  readonly reports: readonly AgedReport[];
}

/** Heartbeats that one controller passes on to another. */
export interface LeaseBatch {
  readonly requests: readonly LeaseRequest[];
}

export interface LeaseBatchAnswer {
  /** In the order of the requests; null: that controller does not lead. */
  readonly answers: readonly (LeaseAnswer | null)[];
}

/** A question to a prober, or an agent's answer, that one controller passes on to another. */
export type PassedProbes =
  | ({ readonly kind: 'question'; readonly node: string } & InwardQuestion)
  | { readonly kind: 'answer'; readonly prober: string; readonly answer: PeerAnswer };

const ROOT = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}`;
/** Bytes of a batch. */
const MOST_BATCH = 4 << 20;

/** The calls between controllers. Their client and route follow from them, as of apis/calls.ts. */
export const PEER_CALLS = {
  /** All reports that the other one has. */
  allReports: {
    method: 'GET',
    path: `${ROOT}/nodereports`,
    mostRequest: 0,
    patience: 5_000,
    parseAnswer: (value: unknown, _: null) => parseReports(value),
  },
  reports: {
    method: 'POST',
    path: `${ROOT}/nodereports`,
    mostRequest: MOST_BATCH,
    patience: null,
    parseAnswer: () => {},
  } as Call<ReportBatch, void>,
  leases: {
    method: 'POST',
    path: `${ROOT}/leases`,
    mostRequest: MOST_BATCH,
    patience: 1_000,
    parseAnswer: (value: unknown, { requests }: LeaseBatch) => parseLeases(value, requests.length),
  },
  probes: {
    method: 'POST',
    path: `${ROOT}/probes`,
    mostRequest: MOST_PROBES_BODY,
    patience: INWARD_PATIENCE.connection + INWARD_PATIENCE.onTheWay,
    parseAnswer: (value: unknown, _: PassedProbes): InwardAnswer => valid(parseInwardAnswer(value)),
  },
  /** Null: that controller has no stream of the node; or it was an answer. */
  questions: {
    method: 'POST',
    path: `${ROOT}/nodequestions`,
    mostRequest: MOST_PASSED,
    patience: QUESTION_PATIENCE.agent + QUESTION_PATIENCE.onTheWay,
    parseAnswer: (value: unknown, _: PassedQuestion): Answered | null => parseAnswered(value),
  },
  state: {
    method: 'GET',
    path: `${ROOT}/controllerstate`,
    mostRequest: 0,
    patience: 2_000,
    parseAnswer: (value: unknown, _: null) => parseState(value),
  },
} as const satisfies Record<string, Call<never, unknown>>;

type Fields = Readonly<Record<string, unknown>>;

/** Ages count from now on. Throws InvalidError with the first problem. */
export function parseReports(value: unknown): ReportBatch {
  const { reports }: Fields = Object(value);
  if (!Array.isArray(reports)) throw new InvalidError('a batch must have a list `reports`');
  return {
    reports: reports.map((item: unknown, i) => {
      const { report, age }: Fields = Object(item);
      if (typeof age !== 'number' || !(age >= 0))
        throw new InvalidError(`reports[${i}].age: must be milliseconds`);
      const found = parseReport(report, String((Object(report) as Partial<NodeReport>).node));
      if ('problems' in found) throw new InvalidError(`reports[${i}]: ${found.problems.join('; ')}`);
      return { report: found, age };
    }),
  };
}

/** Throws InvalidError with the first problem. */
export function parseLeaseBatch(value: unknown): LeaseBatch {
  const { requests }: Fields = Object(value);
  if (!Array.isArray(requests)) throw new InvalidError('a batch must have a list `requests`');
  return {
    requests: requests.map((item: unknown, i) => {
      const one = parseLeaseRequest(item, String((Object(item) as Partial<LeaseRequest>).node));
      if ('problem' in one) throw new InvalidError(`requests[${i}].${one.problem}`);
      return one;
    }),
  };
}

/** Throws InvalidError if it is not the answer to a batch of so many requests. */
function parseLeases(value: unknown, count: number): LeaseBatchAnswer {
  const { answers }: Fields = Object(value);
  if (!Array.isArray(answers) || answers.length !== count)
    throw new InvalidError('the answer has another length');
  return { answers: answers.map((item) => (item === null ? null : valid(parseLeaseAnswer(item)))) };
}

/** Throws InvalidError. */
export function parsePassedProbes(value: unknown): PassedProbes {
  const { kind, node, prober, answer }: Fields = Object(value);
  if (kind === 'answer' && typeof prober === 'string')
    return { kind, prober, answer: valid(parsePeerAnswer(answer)) };
  return { kind: 'question', node: String(node), ...valid(parseInwardQuestion(value)) };
}

/** Throws InvalidError. */
export function parsePassedQuestion(value: unknown): PassedQuestion {
  const { kind, node, answer }: Fields = Object(value);
  if (typeof node !== 'string') throw new InvalidError('node: must be a name');
  if (kind === 'question') {
    const question = parseNodeQuestion(value);
    if (question === null) throw new InvalidError('about, query: must be a question');
    return { kind, node, ...question };
  }
  const parsed = parseNodeAnswer(answer);
  if (kind !== 'answer' || parsed === null) throw new InvalidError(NO_ANSWER);
  return { kind, node, answer: parsed };
}

export const NO_ANSWER = 'must have id, and text or problem';

function parseState(value: unknown): ControllerState {
  const state = parseControllerState(value);
  if (state === null) throw new InvalidError('its answer is no state of a controller');
  return state;
}
