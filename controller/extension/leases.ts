import { LeaseRelay } from '../egress/lease/lease-relay.ts';
import { LeaseGranter } from '../egress/lease/lease-table.ts';
import type { LeaseExtension } from './extension.ts';

/** Fills the port of the process of heartbeats. */
export const LEASE_EXTENSION: LeaseExtension = {
  granter: (options) => new LeaseGranter(options),
  relay: (options) => new LeaseRelay(options),
};
