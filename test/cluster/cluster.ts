/**
 * A real Kubernetes API for tests: etcd and kube-apiserver as processes, and kubectl. Nothing else:
 * no kubelets, no controllers.
 */

import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Finished, run } from '../../build/programs/command.ts';
import { scratchFolder } from '../../build/programs/folder.ts';
import { pause, until } from '../kernel/until.ts';
import type { Namespace } from '../netns/namespace.ts';
import { type ApiClient, apiClient } from './api-client.ts';
import { buildCluster } from './build.ts';
import { kubeconfig, withExpiry, writeClusterFiles } from './cluster-files.ts';
import { daemon, freePorts } from './daemon.ts';

export interface ClusterOptions {
  /** Where both processes run. Default: this process's own network namespace, on loopback alone. */
  readonly namespace?: Namespace;
  /**
   * Of that namespace, by which others reach the API server; needed with `namespace`, whose port
   * 6443 is taken.
   */
  readonly address?: string;
  /** More kube-apiserver flags; those that come twice count as here. */
  readonly apiServerFlags?: readonly string[];
}

interface KubectlOptions {
  readonly stdin?: string;
  /** In place of the administrator's. */
  readonly kubeconfig?: string;
}

interface TokenOptions {
  /** Name of the Node that it is bound to. Gone with it. */
  readonly boundNode?: string;
  /**
   * Default: the API server's own. One that is not the API server's does not authenticate there.
   */
  readonly audiences?: readonly string[];
  /**
   * Until it expires; default 3,600. The API server takes it for a minute more: with -50 it does
   * for 10 s.
   */
  readonly seconds?: number;
}

interface KubeconfigOptions {
  readonly token: string;
  /** Default: the cluster's. */
  readonly server?: string;
}

export interface TestCluster {
  /** URL of the API server. */
  readonly server: string;
  /** Of the API server's certificate: path, PEM. */
  readonly caFile: string;
  readonly ca: string;
  /** Of group system:masters. */
  readonly adminToken: string;
  /** Path; the administrator's. */
  readonly kubeconfig: string;
  /** For files of the test; removed at close(). */
  readonly folder: string;
  /** Path of the program that is etcd, kube-apiserver, kube-proxy and kubectl (build.ts). */
  readonly program: string;
  /**
   * Runs kubectl to its end, in the API server's network namespace; a status other than 0 is no
   * error here.
   */
  kubectl(args: readonly string[], options?: KubectlOptions): Promise<Finished>;
  /**
   * kubectl apply --server-side; YAML or JSON, any number of documents. Rejects with kubectl's
   * message.
   */
  apply: ApiClient['apply'];
  /**
   * Merges into the status of an object that is there (`['node/cp-1']`, `['pod/a',
   * '--namespace=b']`): what a kubelet would report. An apply of the object itself changes no
   * status.
   */
  patchStatus(object: readonly string[], status: object): Promise<void>;
  /** kubectl get -o json, parsed. Rejects with kubectl's message. */
  get<T>(...args: readonly string[]): Promise<T>;
  /** kubectl label --overwrite; null removes a label. */
  label: ApiClient['label'];
  /** kubectl delete --grace-period=0 --wait=false. */
  remove: ApiClient['remove'];
  /**
   * Waits until the server lists all kinds of its CustomResourceDefinitions. One that is deleted
   * before its storage was ever used stays for 5 minutes: crd_finalizer.go in Kubernetes 1.35 fails
   * with "storage is (re)initializing", and tries again at the next resync.
   */
  established(): Promise<void>;
  /**
   * A token of a service account (NAMESPACE/NAME, which must be there), from the TokenRequest API.
   */
  token(serviceAccount: string, options?: TokenOptions): Promise<string>;
  /** Writes a kubeconfig and gives its path. */
  kubeconfigFor(name: string, options: KubeconfigOptions): Promise<string>;
  /** Everything in etcd stays. Resolves when the API server answers again. */
  restartApiServer(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  stopApiServer(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  startApiServer(): Promise<void>;
  /** Default SIGKILL: what was written stays, and in order it takes 7 s. */
  stopEtcd(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Resolves when the API server is ready again, where it runs. */
  startEtcd(): Promise<void>;
  /** Ends both processes and removes the folder. */
  close(): Promise<void>;
}

interface Definition {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string };
    readonly versions: readonly { readonly name: string; readonly served: boolean }[];
  };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

/** How long the API server may take to be ready; 2 to 4 s are usual. */
const READY_MS = 90_000;
/** Longer than any campaign. */
const TOKEN_S = 86_400;
/** The shortest that the TokenRequest API gives. */
const SHORTEST_TOKEN_S = 600;
/**
 * For Go's garbage collector, which else takes a fifth of the API server's processor time in a
 * test: it holds 60 MB, and most tests end before it has allocated the limit.
 */
const RARE_COLLECTION = { GOGC: '1600', GOMEMLIMIT: '400MiB' };
const NAMESPACE_PORTS = [2379, 2380, 6443] as const;

/** Takes 3 to 6 s once the program is built (build.ts). Several can run side by side. */
export async function startCluster(options: ClusterOptions = {}): Promise<TestCluster> {
  const { namespace, address } = options;
  if ((namespace === undefined) !== (address === undefined))
    throw new Error('a cluster in a namespace needs the address that others reach it by');
  const program = await buildCluster();
  const scratch = await scratchFolder('nodewall-cluster-');
  const folder = scratch.path;
  const [etcdPort = 0, peerPort = 0, port = 0] = namespace ? NAMESPACE_PORTS : await freePorts(3);
  await namespace?.run(['ip', 'link', 'set', 'lo', 'up']);
  const adminToken = randomBytes(16).toString('hex');
  const { ca, caFile, serviceAccountKey, flags } = await writeClusterFiles(folder, adminToken, address);
  const server = `https://${hostOf(address ?? '127.0.0.1')}:${port}`;
  const where = namespace === undefined ? {} : { namespace };
  const etcd = daemon({
    name: 'etcd',
    argv: [program, 'etcd', ...etcdFlags(folder, etcdPort, peerPort)],
    logFile: join(folder, 'etcd.log'),
    ...where,
  });
  const apiServer = daemon({
    name: 'kube-apiserver',
    argv: [
      program,
      'kube-apiserver',
      `--etcd-servers=http://127.0.0.1:${etcdPort}`,
      `--secure-port=${port}`,
      `--bind-address=${address === undefined ? '127.0.0.1' : '::'}`,
      `--advertise-address=${address ?? '127.0.0.1'}`,
      `--service-cluster-ip-range=10.96.0.0/16`,
      ...flags,
      ...(options.apiServerFlags ?? []),
    ],
    logFile: join(folder, 'kube-apiserver.log'),
    env: { ...process.env, ...RARE_COLLECTION },
    ...where,
  });

  const kubeconfigFor = async (name: string, parts: KubeconfigOptions): Promise<string> => {
    const path = join(folder, `${name}.kubeconfig`);
    await writeFile(path, kubeconfig({ server, ca, ...parts }), { mode: 0o600 });
    return path;
  };
  const adminKubeconfig = await kubeconfigFor('admin', { token: adminToken });

  const api = apiClient({
    kubeconfig: adminKubeconfig,
    ...(namespace === undefined ? {} : { inside: { namespace, socketPath: join(folder, 'api.socket') } }),
  });
  const kubectl = (args: readonly string[], { stdin, kubeconfig: other }: KubectlOptions = {}) => {
    const argv = [program, 'kubectl', ...args];
    return run(namespace?.command(argv) ?? argv, {
      // It ends before it has garbage worth collecting.
      env: { ...process.env, GOGC: 'off', HOME: folder, KUBECONFIG: other ?? adminKubeconfig },
      ...(stdin === undefined ? {} : { stdin }),
    });
  };
  const logs = async (): Promise<string> => {
    const parts = await Promise.all(
      [etcd, apiServer].map(async (one) => `--- ${one.name}\n${await one.log()}`),
    );
    return parts.join('\n');
  };
  const untilReady = async (): Promise<void> => {
    const end = performance.now() + READY_MS;
    for (; !(await isReady(api)); await pause(50)) {
      const dead = [etcd, apiServer].find((one) => !one.isRunning());
      if (dead !== undefined) throw new Error(`${dead.name} ended\n${await dead.log()}`);
      if (performance.now() > end) throw new Error(`no API server within ${READY_MS} ms\n${await logs()}`);
    }
  };
  const isListed = async ({ spec: { group, names, versions } }: Definition): Promise<boolean> =>
    await api.isWell(`/apis/${group}/${versions.find(({ served }) => served)?.name}/${names.plural}`);
  const close = async (): Promise<void> => {
    // What they hold is thrown away: nothing to end in order.
    await Promise.all([apiServer.stop('SIGKILL'), etcd.stop('SIGKILL')]);
    await scratch.remove();
  };
  const startApiServer = async (): Promise<void> => {
    await apiServer.start();
    await untilReady();
  };

  try {
    await etcd.start();
    await startApiServer();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    server,
    caFile,
    ca,
    adminToken,
    kubeconfig: adminKubeconfig,
    folder,
    program,
    kubectl,
    apply: api.apply,
    patchStatus: api.patchStatus,
    get: api.get,
    label: api.label,
    remove: api.remove,
    async established() {
      await until('all CRDs are established', async () => {
        const { items } = await api.get<{ items: Definition[] }>('customresourcedefinitions');
        const isEstablished = items.every(({ status }) =>
          status?.conditions?.some((one) => one.type === 'Established' && one.status === 'True'),
        );
        return isEstablished && (await Promise.all(items.map(isListed))).every(Boolean);
      });
    },
    async token(serviceAccount, { boundNode, audiences = [], seconds = TOKEN_S } = {}) {
      const lasts = Math.max(seconds, SHORTEST_TOKEN_S);
      const token = await api.token(serviceAccount, {
        expirationSeconds: lasts,
        audiences,
        ...(boundNode === undefined
          ? {}
          : { boundObjectRef: { apiVersion: 'v1', kind: 'Node', name: boundNode } }),
      });
      return seconds < SHORTEST_TOKEN_S ? withExpiry(token, seconds, serviceAccountKey) : token;
    },
    kubeconfigFor,
    async restartApiServer(signal) {
      await apiServer.stop(signal);
      await startApiServer();
    },
    stopApiServer: (signal) => apiServer.stop(signal),
    startApiServer,
    stopEtcd: (signal = 'SIGKILL') => etcd.stop(signal),
    async startEtcd() {
      await etcd.start();
      if (apiServer.isRunning()) await untilReady();
    },
    close,
  };
}

/** Ready, and with what the API server itself makes after its start. */
async function isReady({ isWell }: ApiClient): Promise<boolean> {
  const made = [
    '/api/v1/namespaces/default',
    '/api/v1/namespaces/kube-system',
    '/apis/rbac.authorization.k8s.io/v1/clusterroles/system:auth-delegator',
  ];
  return (await isWell('/readyz')) && (await Promise.all(made.map(isWell))).every(Boolean);
}

function hostOf(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}

/** Its data are in `etcd` below the folder. Ports are of 127.0.0.1. */
export function etcdFlags(folder: string, port: number, peerPort: number): string[] {
  const [client, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  return [
    `--data-dir=${join(folder, 'etcd')}`,
    // What it wrote survives its end, if not the machine's: as tests need it.
    '--unsafe-no-fsync',
    '--log-level=warn',
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
  ];
}
