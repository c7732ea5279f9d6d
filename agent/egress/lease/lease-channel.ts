import type { IncomingMessage } from 'node:http';
import {
  type LeaseAnswer,
  type LeaseRequest,
  leasePath,
  parseLeaseAnswer,
} from '../../../apis/egress/lease.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { ControllerClient } from '../../receive/controller-client.ts';
import { bodyText } from '../../receive/https-call.ts';

/**
 * Time limit of a request (milliseconds). A quarter of the default lease: after a replica that does
 * not answer there is time for another one, twice.
 */
const ANSWER_WITHIN = 500;
const LONGEST_ANSWER = 16 * 1024 * 1024;

/** Sends lease requests on a connection of its own, which is kept between them. */
export function leaseChannel(
  client: ControllerClient,
  clock: Clock,
): (request: LeaseRequest) => Promise<LeaseAnswer> {
  return async (request) => {
    const timeout = new AbortController();
    const cancel = clock.after(ANSWER_WITHIN, () => timeout.abort());
    try {
      const { signal } = timeout;
      const path = leasePath(request.node);
      const response: IncomingMessage = await client.request({ method: 'POST', path, body: request, signal });
      const answer = parseLeaseAnswer(JSON.parse(await bodyText(response, LONGEST_ANSWER)));
      if ('problem' in answer) throw new Error(`the controller's answer: ${answer.problem}`);
      return answer;
    } catch (error) {
      if (timeout.signal.aborted) throw new Error(`no answer within ${ANSWER_WITHIN} ms`, { cause: error });
      throw error;
    } finally {
      cancel();
    }
  };
}
