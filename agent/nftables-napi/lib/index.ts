/** libnftables and nf_tables netlink for Node.js. See README.md. */

export type { TableFamily } from './binding.ts';
export { Conntrack, type NewConnection, TCP_CONNTRACK } from './conntrack.ts';
export {
  CONNTRACK_STATUS,
  type ConntrackEntry,
  type ConntrackTuple,
  type MarkFilter,
  TCP_ENDED,
} from './conntrack-entry.ts';
export {
  type BegunBatch,
  BegunMonitor,
  type BegunMonitorOptions,
  type ConntrackBatch,
  type ConntrackEvent,
  ConntrackMonitor,
  type ConntrackMonitorOptions,
} from './conntrack-monitor.ts';
export type { ScannedConnection } from './conntrack-scan.ts';
export { type Echo, type EchoReply, EchoSocket, type EchoSocketOptions } from './echo-socket.ts';
export { type Elements, type TimedElement, TimedElements } from './elements.ts';
export { NftError, type NftErrorCode, type NftErrorDetail } from './errors.ts';
export type {
  CmpOperator,
  CtKey,
  Expression,
  MapVerdict,
  MetaKey,
  PayloadBase,
  RtKey,
} from './expression.ts';
export {
  type OpenSocket,
  SOCKET_STATE,
  type SocketQuery,
  SocketTable,
  type TcpSocketName,
  TcpSockets,
} from './inet-diag.ts';
export { type LinkGroupChange, LinkSocket } from './links.ts';
export { Monitor, type MonitorEvent } from './monitor.ts';
export { type BatchResult, type Generation, type LastCount, Netlink } from './netlink.ts';
export { Nflog, type NflogBatch, type NflogOptions, type NflogPacket } from './nflog.ts';
export { type JsonObject, Nftables } from './nftables.ts';
export type {
  BatchOperation,
  FlushOperation,
  KeysOperation,
  OperationTarget,
  RangesOperation,
  SetName,
  SetOperation,
} from './operation.ts';
export { IpSocket, type PacketProtocol, PacketSocket } from './packet-socket.ts';
export { type RouteEvent, RouteMonitor, type RouteMonitorOptions } from './route-monitor.ts';
export { RouteSocket } from './route-socket.ts';
export type { RouteAddress } from './rtnetlink/address.ts';
export type { IPv4Setting, Link, ReadLink, RouteLink, RouteVxlan } from './rtnetlink/link.ts';
export type { RouteNeighbour } from './rtnetlink/neighbour.ts';
export type { AddressBytes, RouteOperation } from './rtnetlink/object.ts';
export type { LinkRoute, Route, RouteFilter, RouteNexthop, RouteWay } from './rtnetlink/route.ts';
export type { ReadObject, RouteChange, RouteObject } from './rtnetlink/route-object.ts';
export type { RouteRule } from './rtnetlink/rule.ts';
export type {
  BaseChainProperties,
  ChainSnapshot,
  ChainsSnapshot,
  Hook,
  RuleSnapshot,
  SetSnapshot,
  TableSnapshot,
} from './snapshot.ts';
export type {
  AddChain,
  AddMap,
  AddRule,
  AddSet,
  AddTable,
  DeleteChain,
  DeleteSet,
  DeleteTable,
  FlushChain,
  RenameChain,
  SetKeyType,
  SetStructure,
  StructureOperation,
  TableName,
} from './structure.ts';
export type { WireGuardAddress, WireGuardDevice, WireGuardPeer } from './wireguard.ts';
export { type WireGuardChange, WireGuardSocket } from './wireguard-socket.ts';
export { hasIpsecStates } from './xfrm.ts';
