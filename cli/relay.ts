import { createInterface } from 'node:readline';
import { CONTROLLER_ACCOUNT } from '../apis/control-plane.ts';
import { type KubeApi, kubeApi } from '../controller/kubeapi/kube-api.ts';
import { emptyLike } from '../controller/kubeapi/kube-config.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { clusterConfig } from './cluster-api.ts';
import { RELAYED, type RelayAnswer, type RelayLine } from './relayed-api.ts';

interface RelayOptions {
  readonly kubeconfig?: string;
  readonly controller: string;
  readonly tokenFile: string;
}

/**
 * `nodewall relay`, in a controller's pod: reads requests as lines of JSON until its input ends,
 * and writes what the controllers answer to this pod's token.
 */
export async function relayCommand(options: RelayOptions): Promise<ExitStatus> {
  const kubeConfig = await clusterConfig(options.kubeconfig);
  const server = kubeApi(kubeConfig);
  const ca = `/api/v1/namespaces/${CONTROLLER_ACCOUNT.namespace}/configmaps/nodewall-ca`;
  const trusted = await server
    .request<{ readonly data?: { readonly 'ca.crt'?: string } }>({ method: 'GET', path: ca })
    .finally(() => server.close());
  const config = emptyLike(kubeConfig);
  config.loadFromClusterAndUser(
    {
      name: 'controllers',
      server: options.controller,
      skipTLSVerify: false,
      tlsServerName: `${CONTROLLER_ACCOUNT.name}.${CONTROLLER_ACCOUNT.namespace}.svc`,
      caData: Buffer.from(trusted.data?.['ca.crt'] ?? '').toString('base64'),
    },
    { name: 'pod', authProvider: { name: 'tokenFile', config: { tokenFile: options.tokenFile } } },
  );
  const controllers = kubeApi(config, 'the controllers');
  try {
    const answering = new Set<Promise<void>>();
    for await (const line of createInterface({ input: process.stdin })) {
      const one: Promise<void> = answered(controllers.request, JSON.parse(line) as RelayLine).then(
        (answer) => {
          process.stdout.write(`${JSON.stringify(answer)}\n`);
          answering.delete(one);
        },
      );
      answering.add(one);
    }
    await Promise.all(answering);
    return EXIT.done;
  } finally {
    controllers.close();
  }
}

async function answered(request: KubeApi, { id, ...wanted }: RelayLine): Promise<RelayAnswer> {
  try {
    if (!wanted.path.startsWith(RELAYED))
      throw new Error(`${wanted.path} is none of the controllers' documents`);
    return { id, value: await request<unknown>({ ...wanted, method: 'GET' }) };
  } catch (error) {
    const { message } = error as Error;
    const { status, reason } = isKubeError(error) ? error : { status: 0, reason: 'InternalError' };
    return { id, error: { message, status, reason } };
  }
}
