import type { Server } from 'node:https';
import { believesAnyServer } from '../../apis/config.ts';
import { withApiServer } from '../../apis/exemptions.ts';
import { type EndpointSlice, NO_OBJECTS } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { FairQueue } from '../../lib/process/fair-queue.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import { OpenSockets } from '../../lib/process/server-connections.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { present } from '../../lib/sharing/present.ts';
import type { CertificateAndKey } from '../kubeapi/certificates/issue.ts';
import type { WebhookPaths } from '../kubeapi/certificates/webhook-configurations.ts';
import { accessAuthoriser, reviewAccess } from '../publish/auth.ts';
import type { Snapshot } from '../watch/source.ts';
import { AdmissionProcess } from '../webhook/admission-process.ts';
import { type Changes, latestWorld } from '../webhook/latest.ts';
import { masquerader } from '../webhook/risks.ts';
import {
  KEEP_REFUSED_USE,
  sharedWebhook,
  USE_QUEUE,
  useRight,
  type WebhookOptions,
  webhookServer,
} from '../webhook/server.ts';
import { type ControllerContext, hasEgress, type ProcessContext } from './controller-context.ts';
import type { ControllerLead } from './lead.ts';
import type { ControllerView } from './view.ts';

interface ControllerWebhookOptions {
  readonly context: ControllerContext;
  readonly process: Pick<ProcessContext, 'clock'>;
  readonly view: Pick<ControllerView, 'api' | 'compiling' | 'watches'>;
  readonly lead: Pick<ControllerLead, 'guardrails' | 'statuses'>;
  readonly worlds: Pick<Changes, 'wait'>;
  /** By which the API server proves itself. */
  readonly paths: Pick<WebhookPaths, 'stepOf'>;
}

const NOTHING: ReadonlySet<string> = new Set();
const NONE: NonNullable<Snapshot['waiting']> = [];

/** The webhook of a controller: it judges changes by the objects that are compiled now. */
export function controllerWebhook(options: ControllerWebhookOptions): WebhookService {
  const { context, process, view, lead, worlds, paths } = options;
  const { config, log } = context;
  const { api, compiling } = view;
  const { source } = view.watches;
  const failsafe = memo((slices: readonly EndpointSlice[]) => withApiServer(config.failsafe, slices));
  const waitingGroups = memo((waiting: typeof NONE) => {
    return new Set(waiting.filter(({ kind }) => kind === 'ClusterGroup').map(identityOf));
  });
  const maskedBy = memo((objects: Snapshot['objects']) => masquerader(objects, config.masquerade));
  return new WebhookService({
    stepOf: (path) => paths.stepOf(path),
    world: () => ({
      objects: compiling.snapshot?.objects ?? null,
      masquerader: maskedBy(compiling.snapshot?.objects ?? NO_OBJECTS),
      waiting: waitingGroups(compiling.snapshot?.waiting ?? NONE),
      gone: compiling.snapshot?.definitions?.gone ?? NOTHING,
      failsafe: failsafe(compiling.snapshot?.objects.endpointSlices ?? []),
      believesAnyServer: believesAnyServer(config.names),
      interfaceGroups: Object.keys(config.interfaceGroups),
      ...(hasEgress(context) ? { egress: config.egress } : {}),
    }),
    impact: (change, asker) => lead.guardrails.change(change, asker),
    mayUse: useRight({
      authorise: accessAuthoriser(
        (spec) => reviewAccess(api.reviews.request, spec),
        process.clock.now,
        new FairQueue(USE_QUEUE),
        KEEP_REFUSED_USE,
      ),
    }),
    changed: worlds.wait,
    deletions: {
      async fresh() {
        await source.flush();
        return source.isCurrent();
      },
      keep: (deletion, milliseconds) => lead.statuses.definitions.keep(deletion, milliseconds),
    },
    latest: latestWorld({ request: api.general.request, isCurrent: () => source.isCurrent() }),
    onFailure: ({ message: error }) =>
      void log.error('internal error in a review', { stage: 'webhook', error }),
  });
}

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

  /** As `listen`, on the port of another server: see sharedWebhook. */
  share(proven: Parameters<typeof sharedWebhook>[1]): ReturnType<typeof sharedWebhook> {
    this.#admission.start();
    return sharedWebhook({ ...this.#options, admit: this.#admission.admit.bind(this.#admission) }, proven);
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
