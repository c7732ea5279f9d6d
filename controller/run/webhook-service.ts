import type { Server } from 'node:https';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import { OpenSockets } from '../../lib/process/server-connections.ts';
import { present } from '../../lib/sharing/present.ts';
import type { CertificateAndKey } from '../kubeapi/certificates/issue.ts';
import { AdmissionProcess } from '../webhook/admission-process.ts';
import { type WebhookOptions, webhookServer } from '../webhook/server.ts';

/** The server that answers admission reviews, in every replica. */
export class WebhookService {
  readonly #options: Omit<WebhookOptions, 'admit'>;
  readonly #admission = new AdmissionProcess();
  #server: Server | null = null;
  #sockets: OpenSockets | null = null;
  #isClosed = false;

  constructor(options: Omit<WebhookOptions, 'admit'>) {
    this.#options = options;
  }

  /**
   * Returns the port that it listens on. Throws a CommandError if it can't listen on the address.
   */
  async listen({ host, port }: ListenAddress, pair: CertificateAndKey): Promise<number | undefined> {
    const { certificate: cert, key } = pair;
    const admit = this.#admission.admit.bind(this.#admission);
    const server = webhookServer({ cert, key }, { ...this.#options, admit });
    const sockets = new OpenSockets(server);
    this.#admission.start();
    await new Promise<void>((resolve, reject) => {
      // Later ones, of an accept that fails (no free file descriptor), must not end the process.
      server.on('error', (cause) => {
        reject(new CommandError(EXIT.refused, `--webhook-listen: ${cause.message}`, { cause }));
      });
      server.listen({ port, ...present({ host }) }, () => resolve());
    });
    this.#server = server;
    this.#sockets = sockets;
    // The controller was asked to stop meanwhile.
    if (this.#isClosed) this.close();
    const address = server.address();
    return typeof address === 'object' ? address?.port : port;
  }

  /** For new connections. */
  useTls({ certificate: cert, key }: CertificateAndKey): void {
    this.#server?.setSecureContext({ cert, key });
  }

  close(): void {
    this.#isClosed = true;
    this.#server?.close();
    this.#sockets?.destroy();
    this.#admission.close();
  }
}
