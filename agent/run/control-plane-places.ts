import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../apis/config.ts';
import type { Endpoints } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { addressOf, controllerAddresses, portOf, withControlPlane } from './controller-failsafe.ts';

/** The time that a start without any address waits for a name server (milliseconds). */
const RESOLVE_PATIENCE = 2_000;

interface PlacesParts {
  readonly node: string;
  readonly url: URL;
  /** The API server's URL that the agent uses; null: none. */
  readonly apiServer: URL | null;
  readonly config: Config;
  readonly addresses: readonly string[];
  readonly endpoints: readonly Endpoints[];
  readonly log: Log;
  /**
   * Called after a change of addresses or endpoints, which must be saved and put on the failsafe
   * list.
   */
  readonly changed: () => void;
}

/** The control plane's addresses as far as this agent knows them, for the failsafe list. */
export class ControlPlanePlaces {
  readonly #parts: PlacesParts;
  /** The controller's addresses, sorted. */
  addresses: readonly string[];
  endpoints: readonly Endpoints[];

  constructor(parts: PlacesParts) {
    this.#parts = parts;
    this.addresses = parts.addresses;
    this.endpoints = parts.endpoints;
  }

  /** All known addresses of the API server. */
  apiServers(): string[] {
    const { apiServer } = this.#parts;
    const asked = apiServer === null ? [] : addressOf(apiServer);
    return [...asked, ...this.endpoints.flatMap(({ addresses }) => addresses)];
  }

  /** The agent's configuration, with the control plane on its failsafe list. */
  config(): Config {
    const { config, url, apiServer } = this.#parts;
    const controller = { port: portOf(url), addresses: this.addresses };
    const asked = apiServer === null ? [] : [{ port: portOf(apiServer), addresses: addressOf(apiServer) }];
    return withControlPlane(config, [...this.endpoints, controller, ...asked]);
  }

  /** Sets the API server's endpoints as the controller sent them. */
  said(endpoints: readonly Endpoints[]): void {
    if (isDeepStrictEqual(endpoints, this.endpoints)) return;
    this.endpoints = endpoints;
    this.#parts.changed();
  }

  /** Adds an address at which the controller was reached. */
  reached(address: string): void {
    if (address !== '') this.#know([...this.addresses, address]);
  }

  /**
   * Looks up the controller's name. Without any known address, waits for the name server for a
   * limited time. A failure is only logged: names may not be resolvable before the node has a
   * network, and connections provide the address too.
   */
  async resolve(clock: Clock): Promise<void> {
    const { node, url, log } = this.#parts;
    const resolving = controllerAddresses(url)
      .then((found) => this.#know(found))
      .catch(({ message: error }: Error) => {
        log.warn("cannot resolve the controller's name", { node, controller: url.host, error });
      });
    if (this.addresses.length > 0) return;
    const late = Promise.withResolvers<void>();
    const cancel = clock.after(RESOLVE_PATIENCE, late.resolve);
    await Promise.race([resolving, late.promise]);
    cancel();
  }

  #know(found: readonly string[]): void {
    const now = [...new Set(found)].sort();
    if (now.join() === this.addresses.join()) return;
    this.addresses = now;
    this.#parts.changed();
  }
}
