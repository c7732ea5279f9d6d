import type { WallClock } from '../../lib/process/clock.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { publishCaBundle } from '../kubeapi/certificates/ca-bundle.ts';
import { certificateFiles } from '../kubeapi/certificates/certificate-files.ts';
import { type CertificateSource, certificateKeeper } from '../kubeapi/certificates/keeper.ts';
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
    const files = certificateFiles({
      certFile,
      keyFile,
      caFile,
      trust: trusted,
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
      close: () => files.close(),
    };
  }
  const host = `${service.name}.${service.namespace}.svc`;
  const hosts = [listen.host, webhook?.host].filter((host) => host !== undefined && !/^[0:.]+$/.test(host));
  const names = new Set([host, `${host}.cluster.local`, 'localhost', '127.0.0.1', '::1', ...hosts]);
  return certificateKeeper({
    request,
    namespace: service.namespace,
    name: 'nodewall-ca',
    names: [...names].filter((name) => name !== undefined),
    trust(certificates) {
      trusted(certificates);
      return publishCaBundle(request, certificates);
    },
    clock,
    events,
  });
}
