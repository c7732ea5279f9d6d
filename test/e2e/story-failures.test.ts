/** Two controllers, and what fails: probes of a change, controllers, the API server, tokens. */
import './story-failures/guard.test.ts';
import './story-failures/outages.test.ts';
