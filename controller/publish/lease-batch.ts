import {
  type LeaseAnswer,
  type LeaseRequest,
  parseLeaseAnswer,
  parseLeaseRequest,
} from '../../apis/egress/lease.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';

/** Heartbeats that one controller passes on to another: the body of `POST LEASES_PATH`. */
export interface LeaseBatch {
  readonly requests: readonly LeaseRequest[];
}

export interface LeaseBatchAnswer {
  /** In the order of the requests; null: that controller does not lead. */
  readonly answers: readonly (LeaseAnswer | null)[];
}

export const LEASES_PATH = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}/leases`;

/** Returns the batch, or the first problem. */
export function parseLeaseBatch(value: unknown): LeaseBatch | { readonly problem: string } {
  const { requests } = Object(value) as Partial<Record<keyof LeaseBatch, unknown>>;
  if (!Array.isArray(requests)) return { problem: 'a batch must have a list `requests`' };
  const parsed: LeaseRequest[] = [];
  for (const [i, item] of requests.entries()) {
    const one = parseLeaseRequest(item, String((Object(item) as Partial<LeaseRequest>).node));
    if ('problem' in one) return { problem: `requests[${i}].${one.problem}` };
    parsed.push(one);
  }
  return { requests: parsed };
}

/** Throws if it is not the answer to a batch of so many requests. */
export function readLeaseBatchAnswer(value: unknown, count: number): LeaseBatchAnswer {
  const { answers } = Object(value) as Partial<Record<keyof LeaseBatchAnswer, unknown>>;
  if (!Array.isArray(answers) || answers.length !== count) throw new Error('the answer has another length');
  return {
    answers: answers.map((item) => {
      if (item === null) return null;
      const answer = parseLeaseAnswer(item);
      if ('problem' in answer) throw new Error(`the answer is not valid: ${answer.problem}`);
      return answer;
    }),
  };
}
