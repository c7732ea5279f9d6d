import type { DataplaneName } from '../../apis/dataplanes.ts';
import { IPTABLES } from './iptables/kind.ts';
import type { DataplaneKind } from './kind.ts';
import { NFTABLES } from './nftables/kind.ts';

/** All dataplanes. */
export const DATAPLANES: Readonly<Record<DataplaneName, DataplaneKind>> = {
  nftables: NFTABLES,
  iptables: IPTABLES,
};
