/**
 * The process that holds the controller's Lease and answers heartbeats (heartbeat-process.ts). It
 * compiles nothing: whatever the controller computes, both are in time.
 */

import type { Socket } from 'node:net';
import { HEARTBEAT_PROTOCOL, HEARTBEAT_PROTOCOLS } from '../../apis/heartbeat.ts';
import { monotonicClock } from '../../lib/process/clock.ts';
import { exitWithParent } from '../../lib/process/exit.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import { kubeApi } from '../kubeapi/kube-api.ts';
import { kubeConfigClass } from '../kubeapi/kube-config.ts';
import { type Annotations, leaseStore } from '../kubeapi/lease/lease.ts';
import { SERVER_LIMITS } from '../publish/limits.ts';
import { PEER_CALLS } from '../publish/peer-calls.ts';
import { PeerClients } from '../replicas/peer-clients.ts';
import { Front } from './front.ts';
import { type HeartbeatServer, heartbeatServer } from './heartbeat-server.ts';
import { HeartbeatService } from './heartbeat-service.ts';
import type { FromHeartbeats, HeartbeatData, PeerPlaces, ToHeartbeats } from './messages.ts';

type Send = (message: FromHeartbeats, socket?: Socket, sent?: () => void) => void;

class HeartbeatChild {
  readonly #send: Send;
  readonly #service: HeartbeatService;
  readonly #server: HeartbeatServer;
  readonly #front: Front;
  readonly #peerClients: PeerClients;
  #annotations: Annotations;
  #peers: PeerPlaces = { known: [], caBundle: undefined };
  #nodes: ReadonlySet<string> | null = null;

  constructor(
    send: Send,
    data: HeartbeatData,
    annotations: Annotations,
    KubeConfig: Awaited<ReturnType<typeof kubeConfigClass>>,
  ) {
    const { service, cluster, user, audiences } = data;
    this.#send = send;
    this.#annotations = annotations;
    const apiConfig = new KubeConfig();
    apiConfig.loadFromClusterAndUser(cluster, user);
    const client = () => kubeApi(apiConfig, undefined, (status) => send({ kind: 'answered', status }));
    this.#peerClients = new PeerClients({
      user,
      service,
      protocols: HEARTBEAT_PROTOCOLS,
      kubeConfig: () => new KubeConfig(),
      caBundle: () => this.#peers.caBundle,
    });
    const clock = { ...monotonicClock, date: () => new Date() };
    this.#service = new HeartbeatService({
      data,
      clock,
      send,
      random: Math.random,
      store: leaseStore({ ...service, request: client().request, annotations: () => this.#annotations }),
      relay: {
        peers: () => this.#peers.known,
        send: (peer, body) => this.#peerClients.call(peer, PEER_CALLS.leases, body),
      },
    });
    this.#server = heartbeatServer({
      leases: this.#service,
      audiences,
      account: service,
      now: clock.now,
      // Reviews that strangers cause must not delay the renewal of the Lease.
      request: client().request,
      nodes: () => this.#nodes,
      date: () => clock.date().getTime(),
    });
    this.#front = new Front({
      protocol: HEARTBEAT_PROTOCOL,
      most: () => SERVER_LIMITS.connections + (this.#nodes?.size ?? 0),
      ours: (socket) => this.#server.connected(socket),
      others: (bytes, socket, taken) => send({ kind: 'connection', bytes }, socket, taken),
    });
  }

  receive(message: ToHeartbeats): void {
    switch (message.kind) {
      case 'annotations':
        this.#annotations = message.annotations;
        break;
      case 'peers':
        this.#peers = message.peers;
        this.#peerClients.keep(message.peers.known);
        break;
      case 'nodes':
        this.#nodes = new Set(message.names);
        break;
      case 'tls':
        this.#server.setTls(message);
        break;
      case 'listen':
        void this.#listen(message.listen);
        break;
      case 'stopListening':
        this.#front.stop();
        break;
      default:
        this.#service.receive(message);
    }
  }

  async #listen(listen: ListenAddress): Promise<void> {
    try {
      const { address, port, family } = await this.#front.listen(listen);
      this.#send({ kind: 'listening', address, port, family });
    } catch (error) {
      this.#send({ kind: 'cannotListen', message: (error as Error).message });
    }
  }
}

function serve(process: NodeJS.Process): void {
  const send: Send = (message, socket, sent) => {
    if (process.connected !== true) return;
    process.send?.(message, socket, {}, () => sent?.());
  };
  // The classes that read credentials are loaded first; messages wait, in their order.
  let ready: Promise<HeartbeatChild> | null = null;
  let child: HeartbeatChild | null = null;
  process.on('message', (message: ToHeartbeats) => {
    if (message.kind === 'start') {
      const { data, annotations } = message;
      ready = kubeConfigClass().then((KubeConfig) => {
        child = new HeartbeatChild(send, data, annotations, KubeConfig);
        return child;
      });
    } else if (child !== null) child.receive(message);
    else void ready?.then((started) => started.receive(message));
  });
  // Without the controller nothing is to be held or answered.
  exitWithParent(process);
  // Signals are for the controller, which serves on for a while; they may reach all its processes.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
}

if (process.send !== undefined) serve(process);
