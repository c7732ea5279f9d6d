import type { WallClock } from '../../lib/process/clock.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { publishBundle } from '../kubeapi/certificates/bundle.ts';
import { certificateFiles } from '../kubeapi/certificates/certificate-files.ts';
import { type CertificateSource, certificateKeeper } from '../kubeapi/certificates/keeper.ts';
import { RepeatedCheck } from '../kubeapi/certificates/repeated-check.ts';
import { publishToWebhooks } from '../kubeapi/certificates/webhook-configurations.ts';
import type { WebhookPaths } from '../kubeapi/certificates/webhook-paths.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { ControllerContext } from './controller-context.ts';

interface CertificateOptions extends CertificateEvents {
  /** The Service whose names agents and the API server use for the controller. */
  readonly service: { readonly namespace: string; readonly name: string };
  readonly request: KubeApi;
  readonly clock: WallClock;
  /**
   * Called with the CA certificates (PEM) of the serving certificate, possibly repeatedly with the
   * same ones.
   */
  readonly trusted: (certificates: string) => void;
  /** Gets the key from which the paths follow. */
  readonly paths: WebhookPaths;
}

/** The name of the controllers' Secret and of the ConfigMap for agents. */
const AUTHORITY = 'nodewall-ca';

type CertificateEvents = Parameters<typeof certificateKeeper>[0]['events'];

/** The certificate from the given files, or from a CA of the controllers. */
export function certificateSource(
  context: Pick<ControllerContext, 'options' | 'listen' | 'webhook'>,
  options: CertificateOptions,
): CertificateSource {
  const { tlsCertFile: certFile, tlsKeyFile: keyFile, tlsCaFile: caFile } = context.options;
  if (certFile !== undefined && keyFile !== undefined)
    return givenCertificate({ certFile, keyFile, caFile }, context.webhook !== null, options);
  const { service, request, clock, trusted, paths, ...events } = options;
  const host = `${service.name}.${service.namespace}.svc`;
  const hosts = [context.listen.host, context.webhook?.host].filter(
    (host) => host !== undefined && !/^[0:.]+$/.test(host),
  );
  const names = new Set([host, `${host}.cluster.local`, 'localhost', '127.0.0.1', '::1', ...hosts]);
  return certificateKeeper({
    request,
    namespace: service.namespace,
    name: AUTHORITY,
    names: [...names].filter((name) => name !== undefined),
    trust(certificates, key) {
      trusted(certificates);
      paths.setKey(key);
      return publishToWebhooks(request, { certificates, paths });
    },
    clock,
    events,
  });
}

/**
 * A third party writes the files, and the caBundle of the webhook configurations; the controller
 * keeps the CA for agents in a ConfigMap, so that none of them needs the Secret, which has the
 * server's key as well.
 */
function givenCertificate(
  files: { readonly certFile: string; readonly keyFile: string; readonly caFile: string | undefined },
  hasWebhook: boolean,
  { service: { namespace }, request, clock, trusted, paths, ...events }: CertificateOptions,
): CertificateSource {
  const { failed } = events;
  let certificates = '';
  const bundle = new RepeatedCheck({
    check: () => publishBundle(request, { namespace, name: AUTHORITY }, certificates),
    failed,
    clock,
  });
  const webhooks = new RepeatedCheck({
    check: () => publishToWebhooks(request, { certificates: null, paths }),
    failed,
    clock,
  });
  const source = certificateFiles({
    ...files,
    trust(pem) {
      trusted(pem);
      const isFirst = certificates === '';
      certificates = pem;
      if (isFirst) void bundle.start();
      else bundle.checkNow();
    },
    clock,
    events: {
      failed,
      changed(pair) {
        paths.setKey(pair.key);
        webhooks.checkNow();
        events.changed(pair);
      },
    },
  });
  return {
    async start() {
      const pair = await source.start().catch((cause: Error) => {
        throw new CommandError(
          EXIT.invalid,
          `--tls-cert-file, --tls-key-file, --tls-ca-file: ${cause.message}`,
          { cause },
        );
      });
      paths.setKey(pair.key);
      if (hasWebhook) void webhooks.start();
      return pair;
    },
    checkNow: () => webhooks.checkNow(),
    async close() {
      await source.close();
      await Promise.all([bundle.close(), webhooks.close()]);
    },
  };
}
