// The service serves the chart library beside the client's own modules, under this name.
export { default } from 'uplot';
