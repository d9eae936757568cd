// The Go SDK, with a token.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type withToken struct{}

func (withToken) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := request.Clone(request.Context())
	sent.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	return http.DefaultTransport.RoundTrip(sent)
}

func main() {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "driver", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{
		Endpoint:   os.Getenv("MCP_URL"),
		HTTPClient: &http.Client{Transport: withToken{}},
	}
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if _, err := session.ListTools(ctx, nil); err != nil {
		log.Fatal(err)
	}
	call := func(name string, more map[string]any, wants string) {
		arguments := map[string]any{"projectId": os.Getenv("PROJECT"), "environment": "development"}
		for key, value := range more {
			arguments[key] = value
		}
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
		if err != nil {
			log.Fatal(name, err)
		}
		text := result.Content[0].(*mcp.TextContent).Text
		if !strings.Contains(text, wants) {
			log.Fatalf("%s: %s", name, text)
		}
	}
	call("list_secrets", nil, `"key":"A"`)
	call("plan_run", map[string]any{"command": []string{"node", "app.js"}, "keys": []string{"A"}}, "--redact")
	call("list_secrets", map[string]any{"environment": "prod"}, "The project has development")
	fmt.Println("bearer: tools, errors as text")
}
