import { X509Certificate } from 'node:crypto';
import type { Log } from '../../lib/process/log.ts';
import { memo } from '../../lib/sharing/memo.ts';
import type { CertificateAndKey } from '../kubeapi/certificates/issue.ts';
import type { CertificateSource } from '../kubeapi/certificates/keeper.ts';
import { followWebhooks } from '../kubeapi/certificates/webhook-configurations.ts';
import { WebhookPaths } from '../kubeapi/certificates/webhook-paths.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError } from '../kubeapi/kube-error.ts';
import type { RbacRule } from '../kubeapi/rbac-rule.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { certificateSource } from './controller-certificates.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';

export interface CredentialsOptions {
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
