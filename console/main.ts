/** Starts the console: what `index.html` loads. */
import { ConsoleShell } from './shell/console-shell.ts';

customElements.define('nodewall-console', ConsoleShell);
