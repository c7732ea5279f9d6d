import type { IncomingMessage } from 'node:http';
import {
  type LeaseAnswer,
  type LeaseRequest,
  MOST_LEASE_REQUEST,
  parseLeaseRequest,
} from '../../apis/egress/lease.ts';
import { type Answer, jsonBody, noNode, refused, unavailable } from './answer.ts';
import type { Identity } from './auth.ts';
import type { Hub } from './hub.ts';
import { type LeaseBatchAnswer, parseLeaseBatch } from './lease-batch.ts';
import { forbidden, notFromPeer, type PeerOptions, type PermissionOptions } from './permission.ts';
import { MOST_BATCH } from './report-batch.ts';

/** Heartbeats of egress gateways. */
export interface LeaseService {
  /** The leader's answer, whichever replica leads; null: none does with certainty. */
  take(request: LeaseRequest): Promise<LeaseAnswer | null>;
  /** Null: this replica does not lead. */
  takeAsLeader(request: LeaseRequest): LeaseAnswer | null | Promise<LeaseAnswer | null>;
}

export interface LeaseOptions extends PermissionOptions, PeerOptions {
  readonly hub: Pick<Hub, 'has'>;
  /** Absent: the feature gate EgressGateway is off. */
  readonly leases?: LeaseService;
}

/** An agent sends a heartbeat. */
export async function lease(
  options: LeaseOptions,
  { request, identity }: { readonly request: IncomingMessage; readonly identity: Identity },
  name: string,
): Promise<Answer> {
  const { hub, leases } = options;
  const denied = await forbidden(options, identity, { verb: 'update', subresource: 'lease', name });
  if (denied !== null) return denied;
  if (leases === undefined) return gateOff();
  if (!hub.has(name)) return noNode(name);
  const value = await jsonBody(request, MOST_LEASE_REQUEST, 'the lease request');
  if ('failure' in value) return value;
  const parsed = parseLeaseRequest(value.json, name);
  if ('problem' in parsed) return refused('Invalid', parsed.problem);
  const answer = await leases.take(parsed);
  return answer === null
    ? unavailable('no controller leads now; nothing is granted')
    : { code: 200, body: answer };
}

/** Another controller passes heartbeats on. */
export async function leasesPassedOn(options: LeaseOptions, request: IncomingMessage): Promise<Answer> {
  const { leases } = options;
  const stranger = await notFromPeer(options, request);
  if (stranger !== null) return stranger;
  if (leases === undefined) return gateOff();
  const value = await jsonBody(request, MOST_BATCH, 'the batch');
  if ('failure' in value) return value;
  const batch = parseLeaseBatch(value.json);
  if ('problem' in batch) return refused('Invalid', batch.problem);
  const answers = await Promise.all(batch.requests.map((one) => leases.takeAsLeader(one)));
  return { code: 200, body: { answers } satisfies LeaseBatchAnswer };
}

function gateOff(): Answer {
  return refused('NotFound', 'the feature gate EgressGateway of this controller is off');
}
