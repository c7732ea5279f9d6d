import { X509Certificate } from 'node:crypto';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { publishBundle } from '../kubeapi/certificates/authority.ts';
import { CertificateFiles } from '../kubeapi/certificates/certificate-files.ts';
import type { CertificateAndKey } from '../kubeapi/certificates/issue.ts';
import {
  type CertificateEvents,
  CertificateKeeper,
  type CertificateSource,
  RepeatedCheck,
} from '../kubeapi/certificates/keeper.ts';
import {
  followWebhooks,
  publishToWebhooks,
  WebhookPaths,
} from '../kubeapi/certificates/webhook-configurations.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError, type RbacRule } from '../kubeapi/kube-error.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';

interface CredentialsOptions {
  readonly context: Pick<ControllerContext, 'options' | 'listen' | 'webhook' | 'log'>;
  readonly clock: ProcessContext['clock'];
  readonly request: KubeApi;
  /** The Service whose names agents and the API server use for the controller. */
  readonly service: { readonly namespace: string; readonly name: string };
  /** Called after each change of the certificate. */
  readonly changed: () => void;
  /** Called when the CA bundle may have changed. */
  readonly trusted: () => void;
}

/** The controller's serving certificate, and the CA that verifies it. */
export class Credentials {
  readonly #source: CertificateSource;
  readonly #log: Log;
  readonly #followsWebhooks: boolean;
  /** By which the API server proves itself to the webhook. */
  readonly paths: WebhookPaths;
  readonly #changed: () => void;
  readonly #expiryOf = memo(expiryOf);
  #certificate: CertificateAndKey | null = null;
  #lacks: RbacRule | null = null;
  #caBundle: string | null | undefined;

  constructor({ context, clock, request, service, changed, trusted }: CredentialsOptions) {
    const { tlsCertFile, tlsCaFile } = context.options;
    this.#log = context.log;
    this.#changed = changed;
    this.#followsWebhooks = tlsCertFile === undefined || context.webhook !== null;
    this.paths = new WebhookPaths(clock);
    this.#caBundle = tlsCertFile !== undefined && tlsCaFile === undefined ? null : undefined;
    this.#source = certificateSource(context, {
      service,
      request,
      clock,
      paths: this.paths,
      trusted: (pem) => {
        this.#caBundle = Buffer.from(pem).toString('base64');
        trusted();
      },
      changed: (next) => this.#set(next),
      failed: (error) => {
        this.#lacks = isKubeError(error) ? error.rule : null;
        const fields = { stage: 'publish', error: error.message };
        this.#log.error(
          'cannot keep the serving certificate or the webhook configurations; trying again',
          fields,
        );
      },
    });
  }

  /** Null until there is one. */
  get certificate(): CertificateAndKey | null {
    return this.#certificate;
  }

  /** The right by whose lack there is no certificate; null: there is one, or another reason. */
  get lacks(): RbacRule | null {
    return this.#certificate === null ? this.#lacks : null;
  }

  /** Milliseconds since 1970; null: there is no certificate yet. */
  get expires(): number | null {
    return this.#certificate && this.#expiryOf(this.#certificate);
  }

  /**
   * Base64 of the CA certificates (PEM); null: the API server has them from elsewhere. Undefined:
   * not known yet.
   */
  get caBundle(): string | null | undefined {
    return this.#caBundle;
  }

  /** Resolves when there is a certificate. */
  async start(): Promise<void> {
    this.#certificate = await this.#source.start();
  }

  /**
   * The reflectors of the webhook configurations; none if they hold nothing of this controller: the
   * CA is not the controllers' own, and it serves no webhook.
   */
  follow(following: Following): Reflector[] {
    return this.#followsWebhooks ? followWebhooks(following, this.paths, () => this.#source.checkNow()) : [];
  }

  close(): Promise<void> {
    return this.#source.close();
  }

  #set(next: CertificateAndKey): void {
    this.#certificate = next;
    this.#changed();
    this.#log.info('serving with a new certificate', { stage: 'publish' });
  }
}

function expiryOf({ certificate }: CertificateAndKey): number {
  return Date.parse(new X509Certificate(certificate).validTo);
}

interface CertificateOptions
  extends CertificateEvents,
    Pick<CredentialsOptions, 'service' | 'request' | 'clock'> {
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

/** The certificate from the given files, or from a CA of the controllers. */
function certificateSource(
  context: Pick<ControllerContext, 'options' | 'listen' | 'webhook'>,
  options: CertificateOptions,
): CertificateSource {
  const { tlsCertFile: certFile, tlsKeyFile: keyFile, tlsCaFile: caFile } = context.options;
  if (certFile !== undefined && keyFile !== undefined)
    return givenCertificate({ certFile, keyFile, caFile }, context.webhook !== null, options);
  const { service, request, clock, trusted, paths, ...events } = options;
  const host = `${service.name}.${service.namespace}.svc`;
  const { listen, webhook } = context;
  const hosts = [listen.host, webhook === 'shared' ? undefined : webhook?.host].filter(
    (host) => host !== undefined && !/^[0:.]+$/.test(host),
  );
  const names = new Set([host, `${host}.cluster.local`, 'localhost', '127.0.0.1', '::1', ...hosts]);
  return new CertificateKeeper({
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
  const source = new CertificateFiles({
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
