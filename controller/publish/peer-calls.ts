import type { Call } from '../../apis/calls.ts';
import { parseControllerState } from '../../apis/controller-state.ts';
import { LEASE_ANSWER, LEASE_REQUEST } from '../../apis/heartbeat.ts';
import {
  ANSWERED,
  MOST_PASSED,
  type PassedQuestion,
  QUESTION_PATIENCE,
  type QuestionAnswer,
} from '../../apis/node-question.ts';
import {
  INWARD_ANSWER,
  INWARD_PATIENCE,
  INWARD_QUESTION_FIELDS,
  type InwardAnswer,
  MOST_PROBES_BODY,
  PEER_ANSWER,
} from '../../apis/probes.ts';
import {
  checked,
  decode,
  either,
  InvalidError,
  list,
  nullable,
  type Of,
  object,
  oneOf,
  text,
} from '../../apis/schema/shape.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { AGED_REPORT } from './node-reports.ts';

/** Reports that one controller passes on to another. */
export type ReportBatch = Of<typeof REPORT_BATCH>;
export const REPORT_BATCH = object({ reports: list(AGED_REPORT) });

/** Heartbeats that one controller passes on to another. */
export type LeaseBatch = Of<typeof LEASE_BATCH>;
export const LEASE_BATCH = object({ requests: list(LEASE_REQUEST) });

export type LeaseBatchAnswer = Of<typeof LEASE_BATCH_ANSWER>;
const LEASE_BATCH_ANSWER = object({
  /** In the order of the requests; null: that controller does not lead. */
  answers: list(nullable(LEASE_ANSWER)),
});

/** A question to a prober, or an agent's answer, that one controller passes on to another. */
export type PassedProbes = Of<typeof PASSED_PROBES>;
export const PASSED_PROBES = either(
  'a question or an answer',
  object({ kind: oneOf('question'), node: text(), ...INWARD_QUESTION_FIELDS }),
  object({ kind: oneOf('answer'), prober: text(), answer: PEER_ANSWER }),
);

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
    parseAnswer: (value: unknown, _: null) => decode(REPORT_BATCH, value),
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
    parseAnswer(value: unknown, { requests }: LeaseBatch) {
      const parsed = checked(LEASE_BATCH_ANSWER, value);
      if (parsed.answers.length === requests.length) return parsed;
      throw new InvalidError('the answer has another length');
    },
  },
  probes: {
    method: 'POST',
    path: `${ROOT}/probes`,
    mostRequest: MOST_PROBES_BODY,
    patience: INWARD_PATIENCE.connection + INWARD_PATIENCE.onTheWay,
    parseAnswer: (value: unknown, _: PassedProbes): InwardAnswer => decode(INWARD_ANSWER, value),
  },
  /** Null: that controller has no stream of the node; or it was an answer. */
  questions: {
    method: 'POST',
    path: `${ROOT}/nodequestions`,
    mostRequest: MOST_PASSED,
    patience: QUESTION_PATIENCE.agent + QUESTION_PATIENCE.onTheWay,
    parseAnswer: (value: unknown, _: PassedQuestion): QuestionAnswer | null =>
      ANSWERED.accepts(value) ? decode(ANSWERED, value) : null,
  },
  state: {
    method: 'GET',
    path: `${ROOT}/controllerstate`,
    mostRequest: 0,
    patience: 2_000,
    parseAnswer: (value: unknown, _: null) => parseControllerState(value),
  },
} as const satisfies Record<string, Call<never, unknown>>;
