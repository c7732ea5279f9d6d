/** A thousand sessions in each case. */
import { openSessionsSuite } from './open-sessions.ts';

openSessionsSuite(1_000);
