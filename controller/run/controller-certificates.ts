import type { WallClock } from '../../lib/process/clock.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { publishCaBundle } from '../kubeapi/certificates/ca-bundle.ts';
import { certificateFiles } from '../kubeapi/certificates/certificate-files.ts';
import { type CertificateSource, certificateKeeper } from '../kubeapi/certificates/keeper.ts';
import { KeptBundle } from '../kubeapi/certificates/kept-bundle.ts';
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
}

/** The name of the controllers' Secret and of the ConfigMap for agents. */
const AUTHORITY = 'nodewall-ca';

type CertificateEvents = Parameters<typeof certificateKeeper>[0]['events'];

/** The certificate from the given files, or from a CA of the controllers. */
export function certificateSource(
  {
    options: { tlsCertFile: certFile, tlsKeyFile: keyFile, tlsCaFile: caFile },
    listen,
    webhook,
  }: Pick<ControllerContext, 'options' | 'listen' | 'webhook'>,
  { service, request, clock, trusted, ...events }: CertificateOptions,
): CertificateSource {
  if (certFile !== undefined && keyFile !== undefined) {
    const { namespace } = service;
    const { failed } = events;
    const bundle = new KeptBundle({ request, namespace, name: AUTHORITY, clock, failed });
    const files = certificateFiles({
      certFile,
      keyFile,
      caFile,
      trust(certificates) {
        trusted(certificates);
        bundle.take(certificates);
      },
      clock,
      events,
    });
    return {
      start: () =>
        files.start().catch((cause: Error) => {
          throw new CommandError(
            EXIT.invalid,
            `--tls-cert-file, --tls-key-file, --tls-ca-file: ${cause.message}`,
            { cause },
          );
        }),
      look: () => files.look(),
      async close() {
        await files.close();
        await bundle.close();
      },
    };
  }
  const host = `${service.name}.${service.namespace}.svc`;
  const hosts = [listen.host, webhook?.host].filter((host) => host !== undefined && !/^[0:.]+$/.test(host));
  const names = new Set([host, `${host}.cluster.local`, 'localhost', '127.0.0.1', '::1', ...hosts]);
  return certificateKeeper({
    request,
    namespace: service.namespace,
    name: AUTHORITY,
    names: [...names].filter((name) => name !== undefined),
    trust(certificates) {
      trusted(certificates);
      return publishCaBundle(request, certificates);
    },
    clock,
    events,
  });
}
